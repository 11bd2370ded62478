"""Runs one laid-over notebook: pytest and nbval in a process group of their own, the kernel in its small sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import nbformat
import psutil

from . import forkserver
from .forkserver import Forked
from .kernel import FIRST_UID, isolated_environment, isolation, place
from .overlay import overlay_answers
from .sandbox import GIGABYTE
from .submission import Pristine

FOLDER = "course-run-"  # and the grader's process number
SHARED = ("/dev/shm", "/tmp")  # folders in which a kernel's user may have left files


class InfraError(Exception):
    """The grader failed, not the learner: to be tried again, and never scored as zero."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    Attributes:
        cell: seconds for one cell.
        wall: seconds for one run of a notebook, whatever happens inside.
        memory: bytes of address space; torch alone reserves several gigabytes.
    """

    cell: int = 20
    wall: int = 180
    memory: int = 12 * GIGABYTE


@dataclass
class Attempt:
    """What happened to one exercise.

    Attributes:
        outcome: "passed" or "failed" as nbval saw the check cell, "none" when it was not reached.
        trouble: "", or the status that explains why there is no ordinary outcome.
        error: what was raised, for the learner.
        payloads: what the check cell emitted.
        memory_mb: the most memory that the trusted side had taken by then.
    """

    outcome: str = "none"
    trouble: str = ""
    error: str = ""
    payloads: list = field(default_factory=list)
    memory_mb: int = 0


def run(
    pristine: Pristine, answers: Mapping[str, str], seed: int, limits: Limits | None = None
) -> dict[str, Attempt]:
    """Run the answers to one notebook and return what happened to each of them.

    All exercises run in one kernel. When one of them hangs or kills it, those without an ordinary outcome are run
    again, each by itself, so that a broken exercise costs its neighbours nothing.

    Raises:
        InfraError: pytest or the kernel could not be started, or ended in a way that no learner's code explains.
    """
    limits = limits or Limits()
    attempts = _once(pristine, answers, list(answers), seed, limits)
    troubled = any(attempt.trouble not in ("", "student_error") for attempt in attempts.values())
    if troubled and len(answers) > 1:
        first = next(iter(attempts))
        for exercise in answers:
            if exercise == first and attempts[exercise].trouble not in ("", "student_error"):
                continue  # nothing ran before it, so the trouble is its own
            if attempts[exercise].outcome == "none" or attempts[exercise].trouble not in (
                "",
                "student_error",
            ):
                attempts |= _once(pristine, answers, [exercise], seed, limits)
    return attempts


def _once(
    pristine: Pristine, answers: Mapping[str, str], only: Sequence[str], seed: int, limits: Limits
) -> dict[str, Attempt]:
    remove_leftovers()
    base = Path(tempfile.mkdtemp(prefix=_prefix()))
    base.chmod(0o711)
    with place() as slot:
        try:
            records, code, killed, text = _pytest(base, pristine, answers, only, seed, slot, limits)
        finally:
            _sweep(slot)
            shutil.rmtree(base, ignore_errors=True)
    if not records and not killed and code not in (0, 1):
        raise InfraError(f"pytest ended with status {code}: {text[-500:]}")
    if any(record["when"] == "setup" for record in records):
        raise InfraError(
            f"the kernel did not start: {next(r['error'] for r in records if r['when'] == 'setup')[:500]}"
        )
    return _attempts(only, records, killed)


def remove_leftovers() -> None:
    """Remove the folders of graders that were killed in the middle of a run."""
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        number = path.name.removeprefix(FOLDER).split("-")[0]
        if number.isdecimal() and not psutil.pid_exists(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _pytest(
    base: Path,
    pristine: Pristine,
    answers: Mapping[str, str],
    only: Sequence[str],
    seed: int,
    slot: int,
    limits: Limits,
) -> tuple[list[dict], int, bool, str]:
    trusted, scratch = base / "trusted", base / "scratch"
    trusted.mkdir(mode=0o700)
    scratch.mkdir(mode=0o700)
    notebook = trusted / "notebook.ipynb"
    nbformat.write(overlay_answers(pristine, answers, only), notebook)
    spec = trusted / "jupyter" / "kernels" / "graded"
    spec.mkdir(parents=True)
    config = {
        "scratch": str(scratch),
        "slot": slot,
        "seed": seed,
        "seconds": limits.wall,
        "memory": limits.memory,
        "forkserver": forkserver.address("kernel", _prefix(), partial(isolated_environment, isolated=True))
        if isolation() == "isolated"
        else "",
        "modules": pristine.modules,
    }
    spec.joinpath("kernel.json").write_text(
        json.dumps(
            {
                "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "graded",
                "language": "python",
                "metadata": {"kernel_provisioner": {"provisioner_name": "course-graded", "config": config}},
            }
        )
    )
    records, log = trusted / "records.jsonl", trusted / "pytest.log"
    arguments = [
        "-q", "-p", "no:cacheprovider", "-p", "no:python", "-p", "no:unraisableexception", "--noconftest",
        "-c", os.devnull, "--rootdir", str(trusted), "-p", "helpers.grading.recorder", "-p", "nbval.plugin",
        "-p", "pytest_timeout", "--timeout", str(limits.cell + 30), "--nbval-lax", "--nbval-kernel-name", "graded",
        "--nbval-cell-timeout", str(limits.cell), "--color=no", str(notebook),
    ]  # fmt: skip
    environment = {
        "JUPYTER_PATH": str(trusted / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(scratch),
        "COURSE_RECORDS": str(records),
    }
    process = _started(arguments, environment, trusted, log)
    killed = False
    try:
        process.wait(timeout=limits.wall)
    except (subprocess.TimeoutExpired, TimeoutError):
        killed = True
    finally:
        _end(process)
    lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    return [json.loads(line) for line in lines], process.returncode, killed, log.read_text(errors="replace")


def _started(
    arguments: list[str], environment: dict[str, str], folder: Path, log: Path
) -> subprocess.Popen | Forked:
    """Pytest, in a process group of its own: forked from a forkserver where there is one for the kernels."""
    if isolation() == "isolated":
        request = {"arguments": arguments, "environment": environment, "folder": str(folder), "log": str(log)}
        return Forked(forkserver.address("pytest", _prefix(), lambda _: _trusted()), request)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=folder,
            env=_trusted() | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _trusted() -> dict[str, str]:
    """Environment variables of a process that runs notebooks."""
    return (
        os.environ
        | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "JUPYTER_ALLOW_INSECURE_WRITES": "1",  # another user must read the connection file when the grader is root
            "COURSE_TRANSPORT": "ipc" if isolation() == "isolated" else "tcp",
        }
    )


def _prefix() -> str:
    return f"{FOLDER}{os.getpid()}-"


def _end(process: subprocess.Popen | Forked) -> None:
    """Kill what is left of a run: its process group, and whatever its members have started."""
    family = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for each in family:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()


def _sweep(slot: int) -> None:
    """As root: end every process of the slot's user, and remove the files it left in shared places."""
    if os.geteuid() != 0 or isolation() != "isolated":
        return
    uid = FIRST_UID + slot
    for each in psutil.process_iter(["uids"]):
        try:
            if each.info["uids"] and each.info["uids"].real == uid:
                each.kill()
        except psutil.NoSuchProcess:
            continue
    for folder in SHARED:
        for path in Path(folder).iterdir():
            try:
                if path.lstat().st_uid == uid:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            except OSError:
                continue


def _attempts(only: Sequence[str], records: list[dict], killed: bool) -> dict[str, Attempt]:
    attempts = {exercise: Attempt() for exercise in only}
    for record in records:
        attempt = attempts.get(record["exercise"])
        if attempt is None:
            continue
        trouble = _trouble(record)
        attempt.memory_mb = max(attempt.memory_mb, record["memory_mb"])
        if record["role"] == "answer":
            attempt.trouble = trouble or ("student_error" if record["outcome"] != "passed" else "")
            attempt.error = record["error"] and _brief(record)
        elif not attempt.trouble or attempt.trouble == "student_error":
            attempt.outcome = "none" if trouble or record["late"] else record["outcome"]
            attempt.trouble = attempt.trouble or trouble or ("timeout" if record["late"] else "")
            attempt.payloads = record["payloads"]
            attempt.error = attempt.error or (record["error"] and _brief(record))
    for exercise, attempt in attempts.items():
        if attempt.outcome == "none" and not attempt.trouble:
            attempt.trouble = "timeout" if killed else "crashed"
            attempt.error = f"{exercise} was not reached."
    return attempts


def _brief(record: dict) -> str:
    lines = [line for line in record["traceback"].splitlines() if line.strip()]
    return lines[-1] if lines else record["error"]


def _trouble(record: dict) -> str:
    text = f"{record['error']}\n{record['traceback']}"
    for words, status in (
        ("OutputLimit", "output_limit"),
        ("KernelDied", "crashed"),
        ("Kernel dead", "crashed"),
        ("CellTimeout", "timeout"),
        ("Timeout of", "timeout"),
        ("Failed: Timeout", "timeout"),
        ("MemoryError", "memory"),
        ("can't allocate memory", "memory"),
    ):
        if words in text:
            return status
    return ""
