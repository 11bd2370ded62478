"""``course check``, ``grade``, ``regrade``, ``key`` and ``release``."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..doctor import RELEASE, fingerprint
from . import key as keys
from .classroom import Job, progress_line, run_class
from .classroom import grade as grade_job
from .kernel import isolation
from .runner import InfraError, Limits
from .submission import Unreadable, collect, pristine

ROOT = Path(__file__).resolve().parent.parent.parent
LEARNERS_FILES = ("lessons", "exercises", "helpers", "README.md", "CONTRIBUTING.md", "LICENSE", "LICENSE-CONTENT", "Makefile",
                  "pyproject.toml", "constraints.txt", "environment.yml", "docs")  # fmt: skip
TRUSTED = (
    "Trusted mode: kernels are not closed in here (bubblewrap is missing or not allowed), so a hostile submission could "
    "read or change files. Good for feedback; for a class you do not know, see docs/instructors.md."
)


def _parser(name: str, function: object) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"course {name}", description=(function.__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the course's folder")
    return parser


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


# -- for learners -------------------------------------------------------------------------------------------------


def check(argv: list[str]) -> int:
    """Check your own exercise notebooks; nothing in them is changed. Exit status 1 when something is not right yet."""
    parser = _parser("check", check)
    parser.add_argument("notebooks", nargs="+", type=Path)
    options = parser.parse_args(argv)
    right = True
    for path in options.notebooks:
        refusal = "" if path.exists() else f"{path} does not exist; give the name of an exercise notebook."
        row = grade_job(
            Job(path.stem, path.stem, str(path), refusal, str(options.root / "exercises"), {}, 0, Limits())
        )
        if row["marks"]:
            print(f"{path.name}: {row['earned']:g} of {row['possible']:g} points")
        else:
            cure = " `course doctor` finds out why." if row["status"] == "infra_error" else ""
            name = "" if path.name in row["message"] else f"{path.name}: "
            print(f"{name}{row['message']}{cure}")
        for each in row["marks"]:
            sign = {"passed": "✓", "not_started": "○"}.get(each["verdict"], "✗")
            said = {"passed": "", "not_started": ": not started"}.get(each["verdict"], f": {each['message']}")
            print(f"  {sign} {each['title']}{said}")
        for flag in row["flags"]:
            print(f"  note: {flag}")
        waiting = [each for each in row["marks"] if each["verdict"] != "passed"]
        if waiting:
            print(f"  Next: {waiting[0]['title']}.")
        right &= bool(row["marks"]) and not waiting
    return 0 if right else 1


# -- for instructors ------------------------------------------------------------------------------------------------


def release(argv: list[str]) -> int:
    """Make the bundle that learners get: lessons, exercises and helpers, no solutions."""
    parser = _parser("release", release)
    parser.add_argument("out", type=Path, help="folder to make; it must not exist yet")
    options = parser.parse_args(argv)
    if options.out.exists():
        return _fail(f"{options.out} exists already; choose another folder, so that nothing is written over.")
    waste = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "*.pyc")
    options.out.mkdir(parents=True)
    for name in LEARNERS_FILES:
        source = options.root / name
        if source.is_dir():
            shutil.copytree(source, options.out / name, ignore=waste)
        elif source.exists():
            shutil.copy2(source, options.out / name)
    prints = fingerprint(options.out)
    (options.out / "helpers" / RELEASE).write_text(
        json.dumps(prints, indent=1, sort_keys=True), encoding="utf-8"
    )
    print(f"{options.out}: {len(list(options.out.rglob('*.ipynb')))} notebooks, no solutions.")
    return 0


def key(argv: list[str]) -> int:
    """Make the private reference outputs of a class: what right answers give on a seed learners have not seen."""
    parser = _parser("key", key)
    parser.add_argument(
        "--seed", type=int, required=True, help="any whole number but 0, which the notebooks use"
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write; keep it to yourself")
    parser.add_argument(
        "--runs", type=int, default=keys.STABLE_RUNS, help="how often each solution is run and compared"
    )
    parser.add_argument("names", nargs="*", help="notebooks such as 01_registration (default: all)")
    options = parser.parse_args(argv)
    if options.seed == 0:
        return _fail("--seed 0 is the seed that learners see in their own notebooks; choose another number.")
    try:
        made = keys.make(options.root, options.seed, options.out, options.names, options.runs)
    except (keys.InvalidKey, Unreadable, InfraError) as error:
        return _fail(f"course key: {error}")
    count = sum(map(len, made["notebooks"].values()))
    print(
        f"{options.out}: {count} checks in {len(made['notebooks'])} notebooks; each ran {options.runs} times alike, stubs earn nothing."
    )
    return 0


def grade(argv: list[str]) -> int:
    """Grade submissions: notebooks, a folder of them, one folder for each learner, or a zip archive."""
    return _grade(argv, again=False)


def regrade(argv: list[str]) -> int:
    """Grade again from the start: after a new key, or a mended check. The old results are kept beside the new ones."""
    return _grade(argv, again=True)


def _grade(argv: Sequence[str], again: bool) -> int:
    parser = _parser("regrade" if again else "grade", regrade if again else grade)
    parser.add_argument("submissions", nargs="+", type=Path)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of results; a second run resumes there"
    )
    parser.add_argument("--key", type=Path, help="private reference outputs, from `course key`")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time on this machine")
    parser.add_argument("--scheduler", default="", help="address of a Dask scheduler, to grade on a cluster")
    parser.add_argument("--cell-seconds", type=int, default=Limits.cell, help="time limit of one cell")
    parser.add_argument(
        "--wall-seconds", type=int, default=Limits.wall, help="time limit of one run of a notebook"
    )
    options = parser.parse_args(argv)
    if isolation() == "trusted":
        print(TRUSTED, file=sys.stderr)
    log = options.out / "results.jsonl"
    if again and log.exists():
        log.rename(options.out / f"results-{int(log.stat().st_mtime)}.jsonl")
    with tempfile.TemporaryDirectory() as unpacked:
        try:
            seed, references = _references(options.key)
            jobs = _jobs(options, Path(unpacked), seed, references)
        except (keys.InvalidKey, Unreadable, InfraError) as error:
            return _fail(f"course grade: {error}")
        if not jobs:
            return _fail(
                f"course grade: there are no notebooks in {', '.join(map(str, options.submissions))}."
            )
        rows = run_class(jobs, options.out, max(1, options.jobs), options.scheduler, progress_line())
    for row in rows:
        print(
            f"{row['submission']}: {row['status']}, {row['earned']:g} of {row['possible']:g}{' · ' * bool(row['message'])}{row['message']}"
        )
    failed = [row for row in rows if row["status"] == "infra_error"]
    print(
        f"{len(rows)} submissions, {len(failed)} to be graded again (infra_error). Results are in {options.out}."
    )
    return 1 if failed else 0


def _references(key_file: Path | None) -> tuple[int, dict]:
    """Seed and reference facts from the key; without one, the notebooks' own seed and no reference."""
    if key_file is None:
        print(
            "No key: the kernel's own verdict counts, which a dishonest submission can forge.",
            file=sys.stderr,
        )
        return 0, {}
    made = keys.load(key_file)
    return made["seed"], made["notebooks"]


def _version(root: Path, references: dict) -> str:
    """Digest of all that a mark depends on besides the submission: exercises, checks, and the key."""
    digest = hashlib.sha256(json.dumps(references, sort_keys=True).encode())
    for path in sorted([*root.glob("exercises/*.ipynb"), *(ROOT / "helpers").glob("checks/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _jobs(options: argparse.Namespace, unpacked: Path, seed: int, references: dict) -> list[Job]:
    exercises = options.root / "exercises"
    for path in sorted(exercises.glob("*.ipynb")):
        pristine(path)
    limits = Limits(cell=options.cell_seconds, wall=options.wall_seconds)
    version = _version(options.root, references)
    jobs, taken = [], set()
    for learner, found in collect(options.submissions, unpacked):
        refusal = str(found) if isinstance(found, Unreadable) else ""
        stem = learner if refusal or found.stem == learner else f"{learner}/{found.stem}"
        name = next(
            each for each in (stem, *(f"{stem} ({n})" for n in range(2, 10_000))) if each not in taken
        )
        taken.add(name)
        jobs.append(
            Job(
                name,
                learner,
                "" if refusal else str(found),
                refusal,
                str(exercises),
                references,
                seed,
                limits,
                version,
            )
        )
    return jobs
