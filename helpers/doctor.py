"""``course doctor``: what in this installation may not work, and the cure for each thing."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = "custom-gradients-course"
RELEASE = "release.json"
FOLDERS = ("helpers", "lessons", "solutions")


def fingerprint(root: Path) -> dict[str, str]:
    """SHA-256 of every file of the course that learners are not meant to change, by path relative to ``root``."""
    files = (file for folder in FOLDERS for file in sorted((root / folder).rglob("*")))
    return {
        file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file()
        and file.suffix in {".py", ".toml", ".ipynb"}
        and ".ipynb_checkpoints" not in file.parts
    }


def _versions(root: Path) -> Iterator[str]:
    pins = root / "constraints.txt"
    tested = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", pins.read_text(encoding="utf-8"), re.M))
        if pins.exists()
        else {}
    )
    try:
        needed = [Requirement(each) for each in requires(PROJECT) or ()]
    except PackageNotFoundError:
        yield f"{PROJECT} is not installed in {sys.prefix}; run `make lab`, or `pip install -c constraints.txt -e .`"
        return
    for need in needed:
        if need.marker and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(need.name)
        except PackageNotFoundError:
            yield f"{need.name} is missing; run `pip install -c constraints.txt -e .`"
            continue
        if not need.specifier.contains(found, prereleases=True):
            yield f"{need.name} {found} is installed, the course needs {need.specifier}; run `pip install -c constraints.txt -e .`"
        elif need.name in tested and Version(found).public != Version(tested[need.name]).public:
            yield f"note: {need.name} {found} is installed; the course was tested with {tested[need.name]}."


def _kernel() -> Iterator[str]:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        yield "the kernel `python3` is not registered; run `python -m ipykernel install --sys-prefix`"
        return
    python = Path(spec.argv[0])
    if python.is_absolute() and not python.exists():
        yield f"the kernel `python3` starts {python}, which does not exist; run `python -m ipykernel install --sys-prefix`"


def _differences(root: Path) -> Iterator[str]:
    released = root / "helpers" / RELEASE
    if released.exists():
        was, now = json.loads(released.read_text(encoding="utf-8")), fingerprint(root)
        for name in sorted(was.keys() | (now.keys() - {f"helpers/{RELEASE}"})):
            if was.get(name) != now.get(name):
                state = (
                    "is missing" if name not in now else "differs from" if name in was else "is not part of"
                )
                yield f"note: {name} {state} the release; take it from the bundle again if something fails."
        return
    try:
        answer = subprocess.run(
            ["git", "status", "--porcelain", "--", *FOLDERS],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in answer.stdout.splitlines():
        name = line[3:]
        yield f"note: {name} differs from the release; `git restore {name}` brings it back."


def main(argv: list[str]) -> int:
    """Print what is found, one line each; exit status 1 when something must be mended."""
    parser = argparse.ArgumentParser(prog="course doctor", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the course's folder")
    root = parser.parse_args(argv).root
    found = [*_versions(root), *_kernel(), *_differences(root)]
    serious = [line for line in found if not line.startswith("note:")]
    for line in found:
        print(line)
    print("All is well." if not found else f"{len(serious)} to mend, {len(found) - len(serious)} to know.")
    return 1 if serious else 0
