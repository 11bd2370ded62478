"""Reference facts: what right answers give on a seed. With a seed learners have not seen, this is the private key."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from . import forkserver
from .runner import Limits, run
from .submission import Pristine, pristine, read

STABLE_RUNS = 5


class InvalidKey(Exception):
    """A key that cannot be made or read; the message says which check is at fault."""


def reference(course: Pristine, solution: Path, seed: int, runs: int = 1) -> dict[str, list[dict]]:
    """Facts of the solution for each exercise on ``seed``.

    Raises:
        InvalidKey: a check does not pass on its own solution, gives no facts, or differs from run to run.
    """
    answers = read(solution, "solution", [course]).answers
    found: dict[str, list[dict]] = {}
    for number in range(runs):
        forkserver.close()  # each run counts only when it starts from nothing, in a new process
        attempts = run(course, answers, seed, limits=Limits(cell=60, wall=600))
        for exercise in course.exercises:
            attempt = attempts.get(exercise.id)
            records = attempt.payloads if attempt else []
            if (
                attempt is None
                or attempt.outcome != "passed"
                or len(records) != 1
                or records[0]["status"] != "passed"
            ):
                raise InvalidKey(
                    f"{course.name}/{exercise.id}: the solution does not pass on seed {seed}: {attempt and attempt.error}"
                )
            facts = records[0]["facts"]
            if not facts:
                raise InvalidKey(
                    f"{course.name}/{exercise.id}: the check gives no facts, so nothing can be compared."
                )
            if number and facts != found[exercise.id]:
                raise InvalidKey(
                    f"{course.name}/{exercise.id}: run {number + 1} gives other facts than the first."
                )
            found[exercise.id] = facts
    return found


def stub_scores_nothing(course: Pristine, seed: int) -> None:
    """Raises InvalidKey when an unsolved exercise passes."""
    stubs = {exercise.id: exercise.stub for exercise in course.exercises}
    for exercise, attempt in run(course, stubs, seed).items():
        if attempt.outcome == "passed":
            raise InvalidKey(f"{course.name}/{exercise}: the unsolved exercise passes.")


def make(root: Path, seed: int, out: Path, names: Sequence[str] = (), runs: int = STABLE_RUNS) -> dict:
    """Make a key for the course in ``root`` and write it for the instructor's eyes only (mode 600)."""
    made: dict = {"schema": 1, "seed": seed, "notebooks": {}}
    for path in sorted((root / "exercises").glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        course = pristine(path)
        stub_scores_nothing(course, seed)
        made["notebooks"][course.name] = reference(course, root / "solutions" / path.name, seed, runs)
    if not made["notebooks"]:
        raise InvalidKey(f"there are no exercise notebooks in {root / 'exercises'} that could get a key.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(made, file, indent=1)
    return made


def load(path: Path) -> dict:
    """Read a key.

    Raises:
        InvalidKey: the file is missing or is no key.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != 1 or not isinstance(data["seed"], int) or not data["notebooks"]:
            raise ValueError
    except FileNotFoundError:
        raise InvalidKey(
            f"{path} does not exist; make a key with `course key --seed NUMBER --out {path}`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidKey(
            f"{path} is not a key; make one with `course key --seed NUMBER --out FILE`."
        ) from None
    return data
