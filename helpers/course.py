"""The course's one manifest, ``course.toml``, as typed objects: order, titles, minutes, points, hints."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MANIFEST = Path(__file__).with_name("course.toml")


@dataclass(frozen=True)
class Exercise:
    """One exercise, as the manifest describes it.

    Attributes:
        notebook: name of its notebook, without suffix.
        id: name unique within the notebook; also the ``grade_id`` of its answer cell.
        title: what the learner reads.
        answers: the names that the answer cell must define.
        points: what a right answer earns; 0 for a starred extra.
        minutes: rough time.
        difficulty: 1, 2 or 3.
        lines: rough size of an answer.
        own_rule: the learner must write the gradient rule, not borrow it from autograd or ``helpers``.
        see: heading of the lesson that teaches it.
        hints: two steps of help, the second nearer to the answer.
    """

    notebook: str
    id: str
    title: str
    answers: tuple[str, ...]
    points: int
    minutes: int
    difficulty: int
    lines: int
    see: str
    hints: tuple[str, str]
    own_rule: bool = False

    @property
    def check_id(self) -> str:
        return f"{self.notebook}/{self.id}"

    @property
    def starred(self) -> bool:
        return self.points == 0


@dataclass(frozen=True)
class Notebook:
    """A lesson and, where it has one, its exercise notebook.

    Attributes:
        name: file name without suffix, the same in ``lessons/``, ``exercises/`` and ``solutions/``.
        title: what the learner reads.
        minutes: time for reading and playing, without the exercises.
        checks: module of ``helpers.checks`` that marks its exercises, or an empty string.
        exercises: in order.
    """

    name: str
    title: str
    minutes: int
    checks: str
    exercises: tuple[Exercise, ...]

    @property
    def points(self) -> int:
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Course:
    title: str
    notebooks: tuple[Notebook, ...]

    def notebook(self, name: str) -> Notebook:
        """Return the notebook called ``name``.

        Raises:
            KeyError: no notebook has that name; the message lists the names there are.
        """
        for notebook in self.notebooks:
            if notebook.name == name:
                return notebook
        raise KeyError(f"no notebook {name!r} in course.toml; there are {[n.name for n in self.notebooks]}")

    def exercises(self, notebook: str | None = None) -> Iterator[Exercise]:
        """Every exercise in order, or those of one notebook."""
        for each in self.notebooks if notebook is None else (self.notebook(notebook),):
            yield from each.exercises

    def exercise(self, check_id: str) -> Exercise:
        """Return the exercise behind a check id such as ``"01_registration/cube"``.

        Raises:
            KeyError: the manifest has no such exercise.
        """
        for exercise in self.exercises():
            if exercise.check_id == check_id:
                return exercise
        raise KeyError(f"no exercise {check_id!r} in course.toml")


def _exercise(notebook: str, entry: dict) -> Exercise:
    entry = dict(entry)
    hints = tuple(entry.pop("hints"))
    if len(hints) != 2:
        raise ValueError(f"course.toml: {notebook}/{entry['id']} has {len(hints)} hints, it needs two steps")
    return Exercise(notebook=notebook, answers=tuple(entry.pop("answers")), hints=hints, **entry)


@cache
def load(manifest: Path = MANIFEST) -> Course:
    """Read the manifest.

    Raises:
        ValueError: a field is missing or an exercise does not have exactly two hints.
    """
    data = tomllib.loads(manifest.read_text(encoding="utf-8"))
    notebooks = []
    for entry in data["notebook"]:
        try:
            exercises = tuple(_exercise(entry["name"], each) for each in entry.get("exercise", ()))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{manifest.name}: {entry['name']}: {error}") from error
        notebooks.append(
            Notebook(entry["name"], entry["title"], entry["minutes"], entry.get("checks", ""), exercises)
        )
    return Course(data["title"], tuple(notebooks))
