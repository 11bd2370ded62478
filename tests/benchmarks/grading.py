"""Throughput of the grader beside nbgrader's autograde, on the same notebooks with the same checks, one at a time.

Both grade the solution of one exercise notebook, once for each of a few learners, in one run on one machine; what counts
is the ratio of seconds per submission. What the grader's nurseries save is measured by starting its parts afresh. A
second table grades growing classes of a tiny course, in which one submission in ten executes, to show that the cost
of a submission does not grow with the class. ``make bench-grading`` runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from helpers.grading import key as keys
from helpers.grading.classroom import Job, run_class
from helpers.grading.kernel import isolation
from helpers.grading.runner import Limits
from helpers.grading.submission import pristine
from tests.grading.conftest import GOOD, SEED, STUB, notebook
from tests.grading.conftest import NAME as TINY

ROOT = Path(__file__).resolve().parents[2]
NAME = "01_registration"
LIMITS = {"times faster than nbgrader": 3, "growth of cost per submission": 1.3}
ENVIRONMENT = os.environ | {
    "COURSE_PROGRESS": "off",
    "OMP_NUM_THREADS": "1",
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}


def seconds(*command: str, folder: Path = ROOT) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    return time.perf_counter() - start


def with_nbgrader(folder: Path, learners: int) -> float:
    """Seconds that nbgrader's autograde takes for a class, its preparation left out."""
    (folder / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'course'\n")
    solution = ROOT / "solutions" / f"{NAME}.ipynb"
    for place in [Path("source"), *(Path("submitted") / f"learner{n}" for n in range(learners))]:
        (folder / place / NAME).mkdir(parents=True)
        shutil.copy(solution, folder / place / NAME)
    seconds("-m", "nbgrader", "generate_assignment", NAME, folder=folder)
    return seconds("-m", "nbgrader", "autograde", NAME, folder=folder)


def with_course(folder: Path, learners: int, key: Path) -> float:
    """Seconds that ``course grade`` takes for the same class with a key, one kernel at a time."""
    for number in range(learners):
        (folder / "handed" / f"learner{number}").mkdir(parents=True)
        shutil.copy(ROOT / "solutions" / f"{NAME}.ipynb", folder / "handed" / f"learner{number}")
    out = folder / "out"
    command = "import sys; from helpers.cli import main; sys.exit(main())"
    took = seconds("-c", command, "grade", str(folder / "handed"), "--out", str(out), "--key", str(key))
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    if len(rows) != learners or any(row["earned"] != row["possible"] for row in rows):
        raise AssertionError("a solution did not get full points, so the times mean nothing")
    return took


def parts() -> dict[str, float]:
    """Seconds of imports that a run would need, and that the nurseries do once for a class; each by itself."""
    recorder = "import pytest, pytest_timeout, helpers.grading.recorder, helpers.grading.kernel"
    return {
        "pytest, nbval and the recorder": seconds("-c", recorder),
        "kernel": seconds("-c", "import ipykernel.kernelapp, ipykernel.ipkernel"),
        "torch and the checks": seconds("-c", "import helpers.checks.registration"),
    }


def growth(folder: Path, sizes: list[int]) -> dict[int, dict[str, float]]:
    """Seconds for classes of a tiny course in which one submission in ten executes and the others are untouched."""
    for name, answers in (("exercises", STUB), ("solutions", GOOD)):
        (folder / name).mkdir()
        nbformat.write(notebook(answers), folder / name / f"{TINY}.ipynb")
    here = pristine(folder / "exercises" / f"{TINY}.ipynb")
    references = {TINY: keys.reference(here, folder / "solutions" / f"{TINY}.ipynb", SEED)}
    found = {}
    for size in sizes:
        jobs = []
        for number in range(size):
            path = folder / f"learner{number}.ipynb"
            nbformat.write(notebook(GOOD if number % 10 == 0 else STUB), path)
            exercises = str(folder / "exercises")
            jobs.append(Job(path.stem, path.stem, str(path), "", exercises, references, SEED, Limits()))
        start = time.perf_counter()
        run_class(jobs, folder / f"out{size}")
        took = time.perf_counter() - start
        found[size] = {"seconds": round(took, 1), "per submission": round(took / size, 3)}
        print(f"{size}: {found[size]}", flush=True)
    return found


def judge(result: dict) -> list[str]:
    faults = []
    if result["times faster"] < (least := LIMITS["times faster than nbgrader"]):
        faults.append(f"{result['times faster']} times nbgrader's throughput, not {least}")
    costs = [each["per submission"] for each in result["growth"].values()]
    if costs[-1] > (most := LIMITS["growth of cost per submission"]) * costs[0]:
        faults.append(
            f"a submission costs {costs[-1] / costs[0]:.2f} times as much in the largest class, not {most}"
        )
    return faults


def report(result: dict) -> str:
    lines = [
        "# Grading: throughput",
        "",
        f"{result['learners']} submissions of `{NAME}`, solved, one at a time, one run. nbgrader runs every learner's "
        f"code as the grader's own user; `course grade` in {result['mode']} mode, with a pytest and a kernel for each, forked from "
        "processes that have imported what these need (their start is in the figure). Absolute times vary by machine; the ratio is the "
        f"point. Made by `make bench-grading` on {result['machine']}.",
        "",
        "| | seconds per submission |",
        "|---|--:|",
        f"| nbgrader autograde | {result['nbgrader']} |",
        f"| course grade --key | {result['course']} |",
        "",
        f"`course grade` has {result['times faster']} times nbgrader's throughput. "
        "What starting afresh each time would cost, and is paid once instead:",
        "",
        "| part | seconds |",
        "|---|--:|",
        *(f"| {name} | {took} |" for name, took in result["parts"].items()),
        "",
        "## Size of the class",
        "",
        "A tiny course without torch; one submission in ten executes, the others are untouched.",
        "",
        "| submissions | seconds | per submission |",
        "|--:|--:|--:|",
        *(
            f"| {size} | {each['seconds']} | {each['per submission']} |"
            for size, each in result["growth"].items()
        ),
        "",
        f"Short of the limits: {'; '.join(result['faults'])}." if result["faults"] else "All limits hold.",
        "",
    ]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Measure, write the JSON and the page beside it, and fail when a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/grading.json"))
    parser.add_argument("--learners", type=int, default=12)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("nbgrader", "course", "growth"):
            (folder / each).mkdir()
        keys.make(ROOT, SEED, folder / "key.json", [NAME], runs=1)
        nbgrader = with_nbgrader(folder / "nbgrader", options.learners) / options.learners
        ours = with_course(folder / "course", options.learners, folder / "key.json") / options.learners
        result = {
            "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
            "mode": isolation(),
            "learners": options.learners,
            "nbgrader": round(nbgrader, 2),
            "course": round(ours, 2),
            "times faster": round(nbgrader / ours, 2),
            "parts": {part: round(took, 2) for part, took in parts().items()},
            "growth": growth(folder / "growth", options.sizes),
        }
    result["faults"] = judge(result)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(report(result), encoding="utf-8")
    print(report(result))
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
