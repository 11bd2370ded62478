"""The examiner: runs one exercise's facts against a learner's answer and says the first thing that is wrong."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import torch
from IPython.display import display
from torch import Tensor

from ..course import Exercise, load
from . import progress
from .rule import borrowed_from, is_stub, uses_autograd
from .settings import settings_guard
from .verdict import Mistake, Verdict, learners_line, show, tensor_fact

COMMON_HINTS = {
    "forgot-upstream": "Backward receives grad_output, the gradient of the loss with respect to your output. "
    "Multiply your local derivative by it.",
    "wrong-sign": "The numbers are right but for their sign. Derive the rule once more, watching the minus signs.",
    "autograd-does-it": "That works, but here the point is to write the rule yourself: express the gradient with "
    "saved tensors and plain operators.",
    "borrowed": "That is the course's own reference. Read it, close it, and write yours: the rule stays with you.",
    "missing-name": "Run the answer cell first (Shift+Enter), and keep the name as the task gives it.",
    "raises": "Read the last line of the message: it names what PyTorch or Python could not do.",
    "none-gradient": "A None from backward means 'no gradient for this argument'. This argument needs one.",
    "not-a-function": "Subclass torch.autograd.Function, with forward, setup_context (or ctx in forward) and "
    "backward as static methods.",
}
"""Hints for mistakes that any exercise may meet; an exercise can say it better with its own ``Mistake``."""


class CheckFailed(AssertionError):
    """A check that did not pass. Shown as one line: the verdict above it has said the rest."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class _Stop(Exception):
    """Ends an examination early; the verdict holds the reason."""


def seed() -> int:
    """The seed that checks draw their inputs from: environment variable ``COURSE_SEED``, 0 by default.

    Raises:
        ValueError: the variable is not a whole number.
    """
    text = os.environ.get("COURSE_SEED", "0")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"COURSE_SEED is {text!r}; it must be a whole number, such as 0") from None


class Exam:
    """What a check function works with: the learner's answers, seeded inputs, and facts to hold them against.

    Every fact has a name that completes the sentence "It holds that …" and is kept, with the value the
    learner's code gave, for the grader.
    """

    def __init__(self, exercise: Exercise, namespace: MutableMapping[str, Any]) -> None:
        self.exercise = exercise
        self.namespace = namespace
        self.verdict = Verdict(
            exercise.check_id, exercise.title, seed(), see=f"lesson {exercise.notebook}, “{exercise.see}”"
        )
        self._generator = torch.Generator().manual_seed(seed())

    # -- answers and inputs ---------------------------------------------------------------------------------

    def answer(self, name: str | None = None) -> Any:
        """The learner's object called ``name`` (by default the exercise's only answer)."""
        name = name or self.exercise.answers[0]
        if name not in self.namespace:
            self.fail(
                f"there is something called {name}",
                f"There is no `{name}` in this notebook.",
                slug="missing-name",
            )
        value = self.namespace[name]
        if is_stub(value):
            self.verdict.status = "not_started"
            self.verdict.message = (
                f"Replace the ... in `{name}` by your answer, run the cell, and check again."
            )
            raise _Stop
        if self.exercise.own_rule:
            self._require_own_rule(name, value)
        return value

    def function(self, name: str | None = None) -> type[torch.autograd.Function]:
        """The learner's ``autograd.Function`` class called ``name``, with its form examined."""
        value = self.answer(name)
        name = name or self.exercise.answers[0]
        fact = f"{name} is a torch.autograd.Function"
        if not (inspect.isclass(value) and issubclass(value, torch.autograd.Function)):
            self.fail(fact, f"`{name}` is a {type(value).__name__}.", slug="not-a-function")
        for method in ("forward", "backward"):
            owner = next((base for base in value.__mro__ if method in vars(base)), None)
            if owner in (None, torch.autograd.Function) or owner.__module__.startswith("torch."):
                self.fail(fact, f"`{name}` has no {method} of its own.", slug="not-a-function")
            if not isinstance(vars(owner)[method], staticmethod):
                self.fail(
                    fact,
                    f"{method} of `{name}` is not a static method: write @staticmethod above it.",
                    slug="not-static",
                    hint="Autograd calls forward and backward on the class, without an instance: there is no self.",
                )
        self.hold(fact, name)
        return value

    def randn(self, *shape: int, dtype: torch.dtype = torch.float64, requires_grad: bool = True) -> Tensor:
        """Seeded standard normal numbers; asymmetric and never all equal."""
        values = torch.randn(shape, generator=self._generator, dtype=torch.float64).to(dtype)
        return values.requires_grad_(requires_grad)

    def rand(
        self,
        *shape: int,
        low: float = 0.0,
        high: float = 1.0,
        dtype: torch.dtype = torch.float64,
        requires_grad: bool = True,
    ) -> Tensor:
        """Seeded uniform numbers in ``[low, high)``."""
        values = low + (high - low) * torch.rand(shape, generator=self._generator, dtype=torch.float64)
        return values.to(dtype).requires_grad_(requires_grad)

    def randint(self, low: int, high: int, *shape: int) -> Tensor:
        """Seeded whole numbers in ``[low, high)``."""
        return torch.randint(low, high, shape, generator=self._generator)

    # -- running the learner's code -------------------------------------------------------------------------

    def run(self, fact: str, action: Callable[[], Any], mistakes: Sequence[tuple[str, str, str]] = ()) -> Any:
        """Run the learner's code; an exception becomes a verdict that shows their line.

        Args:
            fact: what should have held, e.g. ``"forward runs on a (3, 2) input"``.
            action: calls the learner's code.
            mistakes: ``(pattern, slug, hint)`` for exceptions that a known mistake raises; the pattern is
                searched in ``"TypeName: message"``.
        """
        try:
            return action()
        except (_Stop, KeyboardInterrupt):
            raise
        except BaseException as error:
            described = f"{type(error).__name__}: {error}"
            slug, hint = next(
                (known[1:] for known in mistakes if re.search(known[0], described, re.DOTALL)),
                ("raises", COMMON_HINTS["raises"]),
            )
            brief = described.split("\n")[0][:300]
            self.fail(fact, f"Your code raised {brief}{learners_line(error)}", slug=slug, hint=hint)

    def gradients(
        self,
        fact: str,
        fn: Callable[..., Any],
        inputs: Sequence[Any],
        upstream: Tensor | Sequence[Tensor] | None = None,
        mistakes: Sequence[tuple[str, str, str]] = (),
        **options: Any,
    ) -> tuple[Tensor | None, ...]:
        """Gradients of ``fn(*inputs)`` for every input that requires one, in order.

        Args:
            upstream: the gradient that arrives at the output; seeded random numbers by default.
            options: passed on to ``torch.autograd.grad`` (``create_graph``, ``retain_graph``).
        """

        def action() -> tuple[Tensor | None, ...]:
            output = fn(*inputs)
            outputs = [
                each for each in (output if isinstance(output, tuple) else (output,)) if each.requires_grad
            ]
            arriving = upstream
            if arriving is None:
                arriving = [
                    self.randn(*each.shape, dtype=each.dtype, requires_grad=False) for each in outputs
                ]
            arriving = [arriving] if isinstance(arriving, Tensor) else list(arriving)
            wanted = [each for each in inputs if isinstance(each, Tensor) and each.requires_grad]
            return torch.autograd.grad(outputs, wanted, arriving, allow_unused=True, **options)

        return self.run(fact, action, mistakes)

    # -- facts ----------------------------------------------------------------------------------------------

    def hold(self, fact: str, value: Any = "yes") -> None:
        """Note that a fact holds, with the value that a grader can compare."""
        self.verdict.passed.append(fact)
        self.verdict.facts.append({"name": fact, "kind": "text", "value": str(value)})

    def that(self, fact: str, holds: bool, message: str, slug: str, hint: str = "") -> None:
        """A fact without numbers: it holds, or the learner reads ``message`` and the hint."""
        if not holds:
            self.fail(fact, message, slug=slug, hint=hint)
        self.hold(fact)

    def equal(
        self,
        fact: str,
        got: Any,
        expected: Any,
        mistakes: Sequence[Mistake] = (),
        hint: str = "",
        slug: str = "wrong-value",
    ) -> None:
        """A fact about a plain value (a number of nodes, a name, a shape)."""
        if got != expected or type(got) is not type(expected):
            known = next((each for each in mistakes if each.value == got), None)
            self.fail(
                fact,
                "The two values differ.",
                got,
                expected,
                known.slug if known else slug,
                known.hint if known else hint,
            )
        self.hold(fact, repr(got))

    def close(
        self,
        fact: str,
        got: Any,
        expected: Tensor,
        mistakes: Sequence[Mistake] = (),
        hint: str = "",
        slug: str = "wrong-value",
        rtol: float = 1e-5,
        atol: float = 1e-8,
    ) -> None:
        """A fact about a tensor: type, dtype, shape, then values, compared with a tolerance.

        When the values differ, they are compared with what each known mistake gives; the hint is that
        mistake's, else ``hint``.
        """
        own_slug = slug if slug != "wrong-value" else ""
        known = self._recognise(got, expected, mistakes, rtol, atol)
        slug, hint = (known.slug, known.hint) if known else (slug, hint)
        if got is None:
            own = (known.slug, known.hint) if known else ("none-gradient", COMMON_HINTS["none-gradient"])
            self.fail(fact, "There is no gradient at all: None.", None, expected, *own)
        if not isinstance(got, Tensor):
            self.fail(
                fact, f"Expected a tensor, got a {type(got).__name__}.", show(got), expected, "not-a-tensor"
            )
        if got.shape != expected.shape:
            self.fail(
                fact,
                f"The shape is {tuple(got.shape)}, it should be {tuple(expected.shape)}.",
                got,
                expected,
                known.slug if known else own_slug or "wrong-shape",
                hint,
            )
        if got.dtype != expected.dtype:
            self.fail(
                fact,
                f"The dtype is {got.dtype}, it should be {expected.dtype}.",
                got,
                expected,
                known.slug if known else own_slug or "wrong-dtype",
                hint,
            )
        if not torch.allclose(got.detach(), expected.detach(), rtol=rtol, atol=atol, equal_nan=True):
            self.fail(
                fact,
                self._where(got.detach(), expected.detach(), rtol, atol),
                got.detach(),
                expected.detach(),
                slug,
                hint,
            )
        self.verdict.passed.append(fact)
        self.verdict.facts.append(tensor_fact(fact, got, rtol, atol))

    @staticmethod
    def _recognise(
        got: Any, expected: Tensor, mistakes: Sequence[Mistake], rtol: float, atol: float
    ) -> Mistake | None:
        for mistake in mistakes:
            value = mistake.value
            if value is None:
                if got is None:
                    return mistake
            elif isinstance(got, Tensor) and isinstance(value, Tensor) and got.shape == value.shape:
                same_as_right = value.shape == expected.shape and torch.allclose(
                    value.detach().to(expected.dtype), expected.detach(), rtol=rtol, atol=atol, equal_nan=True
                )
                if not same_as_right and torch.allclose(
                    got.detach().to(value.dtype),
                    value.detach(),
                    rtol=max(rtol, 1e-4),
                    atol=atol,
                    equal_nan=True,
                ):
                    return mistake
        return None

    @staticmethod
    def _where(got: Tensor, expected: Tensor, rtol: float, atol: float) -> str:
        if got.numel() and bool(got.isnan().any()) and not bool(expected.isnan().any()):
            return f"{int(got.isnan().sum())} of {got.numel()} numbers are NaN."
        wrong = ~torch.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
        worst = torch.where(wrong, (got - expected).abs().nan_to_num(torch.inf), 0).reshape(-1).argmax()
        place = tuple(int(each) for each in torch.unravel_index(worst, got.shape)) if got.dim() else ()
        where = f" at {list(place)}" if place else ""
        return (
            f"{int(wrong.sum())} of {got.numel()} numbers differ; the worst{where}: "
            f"yours {got[place].item():.6g}, expected {expected[place].item():.6g}."
        )

    def raises(
        self,
        fact: str,
        action: Callable[[], Any],
        kind: type[BaseException] | tuple[type[BaseException], ...],
        message: str,
        slug: str,
        hint: str = "",
    ) -> None:
        """A fact about refusal: the learner's code must raise ``kind``."""
        try:
            action()
        except kind:
            self.hold(fact, "raises")
            return
        except (_Stop, KeyboardInterrupt):
            raise
        except BaseException as error:
            message = f"It raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}{learners_line(error)}"
        self.fail(fact, message, slug=slug, hint=hint)

    def _require_own_rule(self, name: str, value: Any) -> None:
        fact = f"{name} is your own rule"
        if source := borrowed_from(value):
            self.fail(fact, f"`{name}` uses {source}.", slug="borrowed")
        if call := uses_autograd(value):
            self.fail(
                fact, f"`{name}` calls {call}(): autograd works out the gradient.", slug="autograd-does-it"
            )
        self.hold(fact)

    def fail(
        self,
        fact: str,
        message: str,
        got: Any = None,
        expected: Any = None,
        slug: str = "wrong-value",
        hint: str = "",
    ) -> None:
        """End the examination: ``fact`` does not hold, for the reason in ``message``."""
        verdict = self.verdict
        verdict.status, verdict.failed, verdict.message = "failed", fact, message
        verdict.got, verdict.expected = got, expected
        verdict.slug, verdict.hint = slug, hint or COMMON_HINTS.get(slug, "")
        raise _Stop


def exercise(check_id: str) -> Callable[[Callable[[Exam], None]], Callable[..., None]]:
    """Make a check of a function that examines one exercise.

    The check takes the learner's names from the notebook that calls it (or from ``answers``), shows the
    verdict, and raises ``CheckFailed`` unless everything holds.
    """

    def decorate(body: Callable[[Exam], None]) -> Callable[..., None]:
        @functools.wraps(body)
        def check(answers: MutableMapping[str, Any] | None = None) -> None:
            namespace = inspect.currentframe().f_back.f_globals if answers is None else answers
            verdict = examine(check_id, body, namespace)
            progress.note(verdict)
            display(verdict)
            if verdict.status == "not_started":
                raise CheckFailed(f"Not started: {verdict.title}.") from None
            if verdict.status == "failed":
                raise CheckFailed(f"{verdict.title}: {verdict.failed} — not yet. {verdict.message}") from None

        check.examine = functools.partial(examine, check_id, body)
        return check

    return decorate


def examine(check_id: str, body: Callable[[Exam], None], answers: MutableMapping[str, Any]) -> Verdict:
    """Run a check's facts against ``answers`` and return the verdict, without showing or raising anything."""
    with settings_guard(answers, seed()) as notes:
        exam = Exam(load().exercise(check_id), answers)
        exam.verdict.notes = notes
        with contextlib.suppress(_Stop):
            try:
                body(exam)
            except _Stop:
                raise
            except Exception as error:
                # An answer can be odder than a check foresees; its learner still gets a sentence, not a traceback.
                brief = f"{type(error).__name__}: {error}".split("\n")[0][:300]
                exam.fail(
                    "it can be examined",
                    f"Examining your answer raised {brief}{learners_line(error)}",
                    slug="raises",
                )
    return exam.verdict
