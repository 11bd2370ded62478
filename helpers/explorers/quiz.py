"""Questions that mark themselves and explain every answer.

A lesson's questions live in ``questions/<lesson>.toml``, so that the review can ask them again in another order. The
page marks and explains by itself: once shown, a quiz needs no kernel.
"""

from __future__ import annotations

import random
import textwrap
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from . import palette
from .stage import HERE, WIDGET_VIEW

QUESTIONS = HERE / "questions"
LEVELS = ("first job", "junior", "mid-level", "senior")


@dataclass(frozen=True)
class Answer:
    """One choice.

    Attributes:
        text: the choice; `code` between backticks is set as code.
        right: whether choosing it is right.
        why: why it is right or wrong, shown once it was chosen.
    """

    text: str
    right: bool = False
    why: str = ""


@dataclass(frozen=True)
class Question:
    """A question with one right answer (single choice) or several (multiple choice).

    Attributes:
        text: the question; `code` between backticks is set as code.
        answers: ``Answer`` objects, or tuples ``(text, right, why)``.
        explanation: shown with every answer, after its own ``why``.
        level: who is asked this in an interview: one of ``LEVELS``; empty for a question within a lesson.
        lesson: the notebook it belongs to, such as ``"01_registration"``.
        see: the section of that lesson that answers it.
        name: for a prediction within a lesson, the name it is asked by; an interview question has none.

    Raises:
        ValueError: fewer than two answers, none right, or an unknown level.
    """

    text: str
    answers: Sequence[Answer]
    explanation: str = ""
    level: str = ""
    lesson: str = ""
    see: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        answers = tuple(each if isinstance(each, Answer) else Answer(*each) for each in self.answers)
        object.__setattr__(self, "answers", answers)
        if len(answers) < 2:
            raise ValueError(f"answers of {self.text!r}: got {len(answers)}; a question needs at least two.")
        if not self.right:
            raise ValueError(f"answers of {self.text!r}: none is right; mark at least one with right=True.")
        if self.level and self.level not in LEVELS:
            raise ValueError(f"level of {self.text!r} is {self.level!r}; allowed: {', '.join(LEVELS)}.")

    @property
    def right(self) -> frozenset[int]:
        """Positions of the right answers."""
        return frozenset(at for at, answer in enumerate(self.answers) if answer.right)

    @property
    def multiple(self) -> bool:
        """Whether several answers are right."""
        return len(self.right) > 1


def questions(asked: str | None = None) -> list[Question]:
    """Stored questions: a lesson's interview questions, one of its predictions, or the interview questions of all lessons.

    Args:
        asked: ``"01_registration"``, ``"01_registration/prediction-name"``, or ``None``.

    Raises:
        ValueError: there is no such lesson or prediction, or a file has a mistake; says which.
    """
    lessons = sorted(path.stem for path in QUESTIONS.glob("*.toml"))
    lesson, _, name = (asked or "").partition("/")
    if lesson and lesson not in lessons:
        raise ValueError(f"there are no questions for lesson {lesson!r}; there are some for {lessons}.")
    stored = [each for stem in lessons if lesson in ("", stem) for each in read(QUESTIONS / f"{stem}.toml")]
    found = [each for each in stored if each.name == name]
    if not found:
        names = [each.name for each in stored if each.name]
        raise ValueError(f"{lesson} has no prediction {name!r}; it has {names}.")
    return found


def read(path: Path) -> list[Question]:
    """Questions from a TOML file: ``[[question]]`` tables with ``answers = [{text, right, why}, …]``.

    Raises:
        ValueError: the file is not TOML, or a question is incomplete; names the file and the question.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
        return [
            Question(
                **table | {"answers": [Answer(**each) for each in table["answers"]], "lesson": path.stem}
            )
            for table in tables
        ]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from error


class QuizStage(anywidget.AnyWidget):
    """What travels to the page; ``quiz.js`` is its other half."""

    _esm = HERE / "quiz.js"
    _css = palette.stylesheet() + "".join(
        (HERE / name).read_text(encoding="utf-8") for name in ("stage.css", "quiz.css")
    )

    title = traitlets.Unicode().tag(sync=True)
    questions = traitlets.List().tag(sync=True)
    chosen = traitlets.List().tag(sync=True)
    test = traitlets.Bool().tag(sync=True)


class Quiz:
    """Questions in any order, each marked and explained as soon as it is answered.

    Args:
        asked: the name of a lesson whose stored questions to ask, ``"lesson/name"`` for one prediction, or questions.
        title: the heading.

    Attributes:
        chosen: for each question, the positions of the chosen answers; ``answer`` sets it.
    """

    test = False

    def __init__(self, *asked: str | Question | Iterable[Question], title: str = "") -> None:
        self.questions: list[Question] = []
        for each in asked:
            if isinstance(each, str):
                self.questions += questions(each)
            else:
                self.questions += [each] if isinstance(each, Question) else list(each)
        if not self.questions:
            raise ValueError("a quiz needs at least one question, or the name of a lesson that has some.")
        self.title = title or ("Check yourself" if len(self.questions) > 1 else "What do you think?")
        self.chosen: list[list[int]] = [[] for _ in self.questions]

    def answer(self, question: int, *choices: int) -> str:
        """Choose answers to a question, both counted from 0; returns the verdict with its explanation."""
        self.chosen[question] = sorted(choices)
        if "widget" in self.__dict__:
            self.widget.chosen = [list(each) for each in self.chosen]
        asked = self.questions[question]
        verdict = "Right." if set(choices) == asked.right else "Not quite."
        whys = [asked.answers[at].why for at in self.chosen[question]]
        return " ".join(each for each in (verdict, *whys, asked.explanation) if each)

    @property
    def score(self) -> tuple[int, int]:
        """Questions answered rightly, and questions asked."""
        pairs = zip(self.chosen, self.questions, strict=True)
        return sum(set(chosen) == asked.right for chosen, asked in pairs), len(self.questions)

    def describe(self) -> str:
        """Questions and choices as text, without the answers."""
        return f"{self.title}\n\n" + "\n\n".join(
            map(_as_text, self.questions, range(1, len(self.questions) + 1))
        )

    @cached_property
    def widget(self) -> QuizStage:
        """What the front end shows; built when first needed."""
        asked = [asdict(each) | {"multiple": each.multiple} for each in self.questions]
        made = QuizStage(title=self.title, questions=asked, chosen=self.chosen, test=self.test)
        made.observe(self._follow, names="chosen")
        return made

    def _follow(self, change: dict) -> None:
        self.chosen = [list(each) for each in change["new"]]

    def _repr_mimebundle_(self, **_: Any) -> dict:
        """The widget for a front end; the questions as text for a page without one."""
        return {
            "text/plain": self.describe(),
            WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id},
        }


class SelfTest(Quiz):
    """A quiz in a shuffled order, marked at the end; says which lessons to revisit.

    Args:
        asked: lessons or questions, as for ``Quiz``; nothing means every stored question.
        seed: decides the order; the same seed gives the same test.
        count: how many questions to draw; ``None`` for all.
        title: the heading.

    Raises:
        ValueError: ``count`` is less than 1.
    """

    test = True

    def __init__(
        self,
        *asked: str | Question | Iterable[Question],
        seed: int = 0,
        count: int | None = None,
        title: str = "Test yourself",
    ) -> None:
        super().__init__(*(asked or [questions()]), title=title)
        if count is not None and count < 1:
            raise ValueError(f"count is {count}; allowed: 1 or more, or None for all questions.")
        order = random.Random(seed)
        drawn = order.sample(self.questions, len(self.questions))[:count]
        self.questions = [
            replace(each, answers=order.sample(each.answers, len(each.answers))) for each in drawn
        ]
        self.chosen = [[] for _ in self.questions]

    @property
    def revisit(self) -> list[str]:
        """Lessons with a question that was not answered rightly, in order."""
        pairs = zip(self.chosen, self.questions, strict=True)
        return sorted(
            {asked.lesson for chosen, asked in pairs if set(chosen) != asked.right and asked.lesson}
        )


def _as_text(question: Question, number: int) -> str:
    notes = [question.level] if question.level else []
    notes += ["choose all that apply"] if question.multiple else []
    head = f"{number}. {question.text}" + (f" ({'; '.join(notes)})" if notes else "")
    lines = [textwrap.fill(head, 100, subsequent_indent="   ")]
    lines += [
        textwrap.fill(f"   {letter}) {answer.text}", 100, subsequent_indent="      ")
        for letter, answer in zip("abcdefghij", question.answers, strict=False)
    ]
    return "\n".join(lines)
