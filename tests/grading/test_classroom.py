"""A class at scale: a cluster whose workers are killed gives the serial gradebook, and an interrupted run loses nothing."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest
from distributed import LocalCluster

from helpers.grading import classroom, gradebook
from helpers.grading.classroom import Job, run_class
from tests.grading.conftest import GOOD, LIMITS, SEED, STUB, WRONG, notebook

CLASS = 200
EVERY = 1 if os.environ.get("COURSE_HOSTILE") == "full" else 20
"""In a full run every submission executes; otherwise one in twenty, among untouched and unreadable ones."""

CHANGES = {"seconds", "memory_mb"}  # what differs from run to run


def a_class(
    folder: Path, course: Path, references: dict, count: int = CLASS, every: int = EVERY
) -> list[Job]:
    kinds = [
        GOOD,
        WRONG,
        GOOD | {"cube": WRONG["cube"]},
        GOOD | {"square": "def square(x):\n    raise KeyError(x)"},
    ]
    jobs = []
    for number in range(count):
        path = folder / f"learner{number:03}.ipynb"
        if number % every == 0:
            nbformat.write(notebook(kinds[number // every % len(kinds)]), path)
        elif number % 7 == 0:
            path.write_text("{")
        else:
            nbformat.write(notebook(STUB), path)
        jobs.append(
            Job(path.stem, path.stem, str(path), "", str(course / "exercises"), references, SEED, LIMITS)
        )
    return jobs


def lasting(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name not in CHANGES} for row in rows]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_that_loses_workers_gives_the_serial_gradebook(
    course: Path, references: dict, tmp_path: Path
) -> None:
    jobs = a_class(tmp_path, course, references)
    alone = run_class(jobs, tmp_path / "alone", workers=2)
    dice = random.Random(0)
    deaths = sorted(dice.sample(range(5, CLASS - 20), 2))
    killed: list[int] = []

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        def kill_now_and_then(text: str) -> None:
            if len(killed) < len(deaths) and int(text.split()[0]) >= deaths[len(killed)]:
                workers = [each.pid for each in cluster.workers.values() if each.pid]
                killed.append(dice.choice(workers))
                os.kill(killed[-1], signal.SIGKILL)

        spread = run_class(
            jobs, tmp_path / "spread", scheduler=cluster.scheduler_address, say=kill_now_and_then
        )

    assert len(killed) == 2, "both workers were killed while there was work"
    assert lasting(spread) == lasting(alone) and len(spread) == CLASS
    assert not any(row["status"] == "infra_error" for row in spread)
    books = [(tmp_path / name / "gradebook.csv").read_text() for name in ("alone", "spread")]
    assert books[0] == books[1]
    psutil.wait_procs([each for each in psutil.process_iter() if _of_ours(each)], timeout=5)
    assert [each for each in psutil.process_iter() if _of_ours(each)] == [], "no run outlives its worker"


def _of_ours(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
        return "helpers.grading.recorder" in words and not _has_living_grader(words)
    except psutil.Error:
        return False


def _has_living_grader(words: list[str]) -> bool:
    folder = next(word for word in words if "course-run-" in word).split("course-run-")[1]
    return psutil.pid_exists(int(folder.split("-")[0]))


def test_an_interrupted_run_resumes_where_it_stopped(
    course: Path, references: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, out = a_class(tmp_path, course, references, count=12, every=50), tmp_path / "out"

    def interrupt(text: str) -> None:
        if text.startswith("4 of"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_class(jobs, out, say=interrupt)
    kept = gradebook.read(out / "results.jsonl")
    assert len(kept) == 4 and (out / "gradebook.csv").exists()

    calls: list[str] = []
    real = classroom.grade
    monkeypatch.setattr(classroom, "grade", lambda job: calls.append(job.name) or real(job))
    rows = run_class(jobs, out)
    assert len(calls) == 8 and set(calls).isdisjoint(row["submission"] for row in kept)
    assert [row["submission"] for row in rows] == [job.name for job in jobs]


def test_the_graders_own_failure_is_tried_again_and_is_no_zero(
    course: Path, references: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_class(tmp_path, course, references, count=1)[0]
    failures: list[int] = []
    real: Callable = classroom.run

    def broken(*arguments: object, **more: object) -> object:
        failures.append(1)
        if len(failures) < 3:
            raise classroom.InfraError("no kernel today")
        return real(*arguments, **more)

    monkeypatch.setattr(classroom, "run", broken)
    assert classroom.grade(job)["earned"] == 4 and len(failures) == 3
    monkeypatch.setattr(
        classroom, "run", lambda *a, **k: (_ for _ in ()).throw(classroom.InfraError("no kernel today"))
    )
    rows = run_class([job], tmp_path / "out")
    assert rows[0]["status"] == "infra_error" and rows[0]["marks"] == []
    monkeypatch.setattr(classroom, "run", real)
    assert run_class([job], tmp_path / "out")[0]["status"] == "graded", "a later run grades it again"
