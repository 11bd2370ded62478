"""Checks of ``exercises/01_registration.ipynb``."""

from __future__ import annotations

from helpers.checks.exam import Exam, exercise
from helpers.checks.verdict import Mistake


@exercise("01_registration/cube")
def check_cube(exam: Exam) -> None:
    """``Cube``: y = x³ with its own backward."""
    Cube = exam.function()
    x = exam.randn(3, 2)
    y = exam.run("forward runs on a (3, 2) input", lambda: Cube.apply(x))
    exam.close("forward gives x³", y, x**3, hint="The forward is x * x * x, element by element.")
    upstream = exam.randn(3, 2, requires_grad=False)
    local = 3 * x.detach() ** 2
    (gradient,) = exam.gradients("backward runs", Cube.apply, [x], upstream)
    exam.close(
        "backward gives 3x² times grad_output",
        gradient,
        local * upstream,
        mistakes=[
            Mistake("forgot-upstream", local, "Multiply by grad_output."),
            Mistake("wrong-sign", -local * upstream, "The sign."),
        ],
        hint="The local derivative of x³ is 3x².",
    )
