"""A class's submissions, graded side by side: in threads on this machine, or on a Dask cluster with the same code."""

from __future__ import annotations

import hashlib
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import gradebook
from .kernel import isolation
from .runner import InfraError, Limits, remove_leftovers, run
from .score import mark, status_of, totals
from .submission import Submission, Unreadable, pristine, read

TRIES = 3  # of a submission on which the grader itself failed


@dataclass(frozen=True)
class Job:
    """One submission to grade: plain data, so that it travels to a cluster.

    Attributes:
        name: the submission's row, unique in the class.
        learner, path: whose it is, and where; ``refusal`` instead of a path says why it cannot be read.
        exercises: folder of the pristine exercise notebooks.
        references: facts by notebook and exercise; empty for feedback without a reference.
        seed: ``COURSE_SEED`` for the checks.
        limits: what it may use.
        version: digest of the course and the key; a result with another one is out of date.
    """

    name: str
    learner: str
    path: str
    refusal: str
    exercises: str
    references: Mapping[str, Mapping[str, list]]
    seed: int
    limits: Limits
    version: str = ""


@cache
def _course(folder: str) -> tuple:
    return tuple(pristine(path) for path in sorted(Path(folder).glob("*.ipynb")))


def grade(job: Job) -> dict:
    """Grade one submission and return its row. Whatever happens, there is a row."""
    start = time.monotonic()
    row = {"submission": job.name, "learner": job.learner, "notebook": "", "status": "unreadable", "earned": 0.0,
           "possible": 0.0, "marks": [], "flags": [], "message": job.refusal, "sha256": "", "mode": isolation(),
           "seed": job.seed, "version": job.version}  # fmt: skip
    if not job.refusal:
        row["sha256"] = _digest(Path(job.path))
        try:
            found = read(Path(job.path), job.learner, _course(job.exercises))
            row |= {"notebook": found.notebook, "flags": found.flags}
            row |= _marked(job, found)
        except Unreadable as refusal:
            row["message"] = str(refusal)
        except InfraError as error:
            row |= {"status": "infra_error", "message": f"The grader failed: {error}"}
        except Exception as error:  # a row is owed for every submission, also when this program is at fault
            row |= {"status": "infra_error", "message": f"The grader failed: {type(error).__name__}: {error}"}
    row["seconds"] = round(time.monotonic() - start, 2)
    return row


def _marked(job: Job, found: Submission) -> dict:
    course = next(each for each in _course(job.exercises) if each.name == found.notebook)
    stubs = {exercise.id: exercise.stub for exercise in course.exercises}
    started = {name: source for name, source in found.answers.items() if source != stubs[name]}
    attempts = {}
    for left in range(TRIES - 1, -1, -1):
        try:
            attempts = run(course, started, job.seed, job.limits) if started else {}
            break
        except InfraError:
            if not left:
                raise
    references = job.references.get(course.name)
    marks = [
        mark(
            exercise,
            found.answers.get(exercise.id),
            attempts.get(exercise.id),
            references.get(exercise.id, []) if references is not None else None,
        )
        for exercise in course.exercises
    ]
    earned, possible = totals(marks)
    return {
        "status": status_of(marks, attempts),
        "earned": earned,
        "possible": possible,
        "marks": [each.as_dict() for each in marks],
        "message": "",
        "memory_mb": max((attempt.memory_mb for attempt in attempts.values()), default=0),
    }


# -- many of them -------------------------------------------------------------------------------------------------


def _locally(jobs: Iterable[Job], workers: int) -> Iterator[dict]:
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(grade, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _on_dask(jobs: Iterable[Job], address: str) -> Iterator[dict]:
    from distributed import Client
    from distributed import as_completed as completed

    jobs = {job.name: job for job in jobs}
    with Client(address) as client:
        # A task is pure data in and out, so it may be run again when its worker is lost, as often as it takes.
        futures = [
            client.submit(grade, job, key=f"grade-{name}", pure=False, retries=10)
            for name, job in jobs.items()
        ]
        for future in completed(futures):
            name = future.key.removeprefix("grade-")
            if future.status == "finished":
                yield future.result()
            else:
                yield grade(jobs[name])  # a task that lost its worker again and again is graded here, alone


def run_class(
    jobs: list[Job],
    out: Path,
    workers: int = 1,
    scheduler: str = "",
    say: Callable[[str], None] | None = None,
) -> list[dict]:
    """Grade a class, resuming where an earlier run stopped, and write the gradebook.

    Args:
        jobs: one for each submission.
        out: folder of results; ``results.jsonl`` in it is what a later run resumes from.
        workers: kernels at a time on this machine.
        scheduler: address of a Dask scheduler, to grade on its workers instead.
        say: takes a line of progress now and then.

    Returns:
        One row for each job.
    """
    out.mkdir(parents=True, exist_ok=True)
    log = out / "results.jsonl"
    done = {row["submission"]: row for row in gradebook.read(log) if row["status"] != "infra_error"}
    rows = {job.name: done[job.name] for job in jobs if _is_done(job, done)}
    waiting = [job for job in jobs if job.name not in rows]
    start = time.monotonic()
    try:
        for number, row in enumerate(
            _on_dask(waiting, scheduler) if scheduler else _locally(waiting, workers), 1
        ):
            rows[row["submission"]] = row
            gradebook.append(log, row)
            left = (time.monotonic() - start) / number * (len(waiting) - number)
            if say:
                say(f"{number} of {len(waiting)} graded, about {_duration(left)} left")
    finally:
        gradebook.write(out, list(rows.values()))
        remove_leftovers()
    if len(rows) != len(jobs):
        raise AssertionError(f"{len(jobs)} submissions went in, {len(rows)} rows came out")
    return [rows[job.name] for job in jobs]


def _is_done(job: Job, done: Mapping[str, dict]) -> bool:
    row = done.get(job.name)
    if row is None or (row["seed"], row.get("version", "")) != (job.seed, job.version):
        return False
    return row["message"] == job.refusal if job.refusal else row["sha256"] == _digest(Path(job.path))


def _digest(path: Path) -> str:
    """Digest of an ordinary file; empty for anything else, which is not opened."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def progress_line() -> Callable[[str], None]:
    """Progress on one line of a terminal, or on lines of its own in a log."""
    end, lock = ("\r" if sys.stderr.isatty() else "\n"), threading.Lock()

    def say(text: str) -> None:
        with lock:
            print(f"{text}   ", end=end, file=sys.stderr, flush=True)

    return say
