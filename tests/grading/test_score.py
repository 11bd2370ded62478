"""Marks: what a record must hold to count, and what an answer's source must not."""

from __future__ import annotations

import pytest

from helpers.grading.runner import Attempt
from helpers.grading.score import broken_rule, mark, same_facts
from helpers.grading.submission import PristineExercise

EXERCISE = PristineExercise("square", "A square", "square-answer", "...", ("square",), 2.0, True)
FACT = {
    "name": "y",
    "kind": "tensor",
    "dtype": "float64",
    "shape": [2],
    "values": [1.0, 2.0],
    "rtol": 1e-5,
    "atol": 0.0,
}
WORD = {"name": "kind", "kind": "text", "value": "leaf"}
REFERENCE = [FACT, WORD]


def attempt(facts: object = REFERENCE, outcome: str = "passed", **record: object) -> Attempt:
    return Attempt(outcome, payloads=[{"status": "passed", "hint": None, "facts": facts} | record])


def test_equal_facts_pass() -> None:
    made = mark(EXERCISE, "x = 1", attempt(), REFERENCE)
    assert (made.verdict, made.earned) == ("passed", 2.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"values": [1.0, 2.001]},
        {"values": [1.0, "nan"]},
        {"values": [1.0]},
        {"values": [True, 2.0]},
        {"values": "1.0, 2.0"},
        {"dtype": "float32"},
        {"shape": [2, 1]},
        {"name": "z"},
        {"kind": "text", "value": "y"},
        {"values": [1.0, 2.5], "rtol": 10.0},
    ],
)
def test_any_other_fact_fails(changed: dict) -> None:
    made = mark(EXERCISE, "x = 1", attempt([FACT | changed, WORD]), REFERENCE)
    assert (made.verdict, made.earned) == ("failed", 0.0)


@pytest.mark.parametrize(
    "facts", [None, [], [FACT], [WORD, FACT], [FACT, WORD, WORD], ["y", "kind"], {"y": FACT}]
)
def test_other_lists_of_facts_fail(facts: object) -> None:
    assert mark(EXERCISE, "x = 1", attempt(facts), REFERENCE).earned == 0


def test_tolerance_is_the_references_and_the_last_bits_do_not_matter() -> None:
    assert same_facts([FACT | {"values": [1.000001, 2.0]}], [FACT])
    special = FACT | {"values": ["nan", "inf"]}
    assert same_facts([special], [special]) and not same_facts([special], [FACT])


def test_facts_do_not_help_a_check_that_failed_or_was_run_twice() -> None:
    assert mark(EXERCISE, "x = 1", attempt(outcome="failed"), REFERENCE).earned == 0
    assert mark(EXERCISE, "x = 1", attempt(status="failed"), REFERENCE).earned == 0
    twice = attempt()
    twice.payloads *= 2
    assert mark(EXERCISE, "x = 1", twice, REFERENCE).earned == 0


def test_with_a_key_the_kernels_words_reach_the_instructor_only() -> None:
    said = Attempt(
        "failed",
        error="CheckFailed: yours 4711.0, expected 42.0",
        payloads=[{"status": "failed", "hint": "seed 4711"}],
    )
    keyed, plain = mark(EXERCISE, "x = 1", said, REFERENCE), mark(EXERCISE, "x = 1", said, None)
    assert "4711" not in keyed.message + keyed.hint and "4711" in keyed.detail
    assert "4711" in plain.message, "feedback on the learner's own seed shows the numbers"


@pytest.mark.parametrize(
    "source",
    [
        "import helpers.functions as f",
        "from helpers.functions import huber",
        "from solutions import cube",
        "__import__('helpers')",
        "import sys\nsys.modules['helpers.functions']",
        "eval('huber')",
        "y = torch.autograd.grad(z, x)",
        "import torch as t\nt.autograd.grad(z, x)",
        "from torch.autograd import grad as slope",
        "slope = torch.autograd.grad",
        "z.sum().backward()",
        "from torch import func\nfunc.vjp(f, x)",
        "with torch.enable_grad(): pass",
    ],
)
def test_answers_that_let_others_do_the_work_are_refused(source: str) -> None:
    assert broken_rule(source, own_rule=True)


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nprint('here', file=sys.stderr)",
        "class F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, grad_output):\n        return grad_output",
        "for part in model.modules(): pass",
        "scipy.special.jvp(0, x)",
        "print(x.grad)",
        "%timeit f(x)\n!ls\nx = 1",
        "def broken(:",
    ],
)
def test_ordinary_code_is_not(source: str) -> None:
    assert broken_rule(source, own_rule=True) == ""


def test_autograd_is_refused_only_where_the_rule_is_the_task() -> None:
    assert broken_rule("z.sum().backward()", own_rule=False) == ""
