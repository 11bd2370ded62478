"""Checks of ``exercises/06_debugging.ipynb``."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .exam import Exam, exercise
from .verdict import Mistake

# -- central differences --------------------------------------------------------------------------------------


def _differences(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """``f(x + εeᵢ) - f(x)`` and ``f(x) - f(x - εeᵢ)`` for every coordinate."""
    up, down = torch.empty_like(x), torch.empty_like(x)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        up.view(-1)[i] = fn(x + step) - fn(x)
        down.view(-1)[i] = fn(x) - fn(x - step)
    return up, down


@exercise("06_debugging/central_difference")
def check_central_difference(exam: Exam) -> None:
    """``central_difference(fn, x, eps)``: the gradient by a pinch up and a pinch down."""
    central_difference = exam.answer()
    x, weight = (exam.randn(2, 3, requires_grad=False) for _ in range(2))
    eps = 0.05  # large enough for forward and central differences to be told apart

    def fn(z: Tensor) -> Tensor:
        return (weight * z.sin()).sum() ** 2  # every coordinate matters to every slope

    before = x.clone()
    got = exam.run(
        "it runs on a (2, 3) input",
        lambda: central_difference(fn, x, eps),
        [
            (
                "shape '?\\[|view size|out of bounds|invalid for input|IndexError",
                "one-dimensional-only",
                "Your loop counts coordinates as if x were a vector. Go over x.view(-1), or build one step tensor "
                "of x's shape per coordinate.",
            )
        ],
    )
    exam.that(
        "x is as it was afterwards",
        torch.equal(x, before),
        f"x has changed: its largest entry moved by {float((x - before).abs().max()):.3g}.",
        "changes-x",
        "Nudging x in place changes the caller's tensor, and rounding keeps x + ε - ε from coming back exactly. "
        "Nudge a copy.",
    )
    up, down = _differences(fn, x, eps)
    direction = torch.ones_like(x) * eps
    together = torch.full_like(x, float((fn(x + direction) - fn(x - direction)) / (2 * eps)))
    exam.close(
        "each entry is (f(x + εeᵢ) - f(x - εeᵢ)) / 2ε",
        got,
        (up + down) / (2 * eps),
        [
            Mistake(
                "forward-difference",
                up / eps,
                "That is the forward difference: its error shrinks like ε, the central one's like ε². Step down as well.",
            ),
            Mistake(
                "forward-difference",
                down / eps,
                "That is the backward difference: its error shrinks like ε, the central one's like ε². Step up as well.",
            ),
            Mistake(
                "forgot-the-two",
                (up + down) / eps,
                "Twice too large: from x - ε to x + ε the way is 2ε long.",
            ),
            Mistake(
                "half-too-small",
                (up + down) / (4 * eps),
                "Half of what it should be: the way from x - ε to x + ε is 2ε, no longer.",
            ),
            Mistake("wrong-sign", -(up + down) / (2 * eps), "The order matters: f(x + ε) minus f(x - ε)."),
            Mistake(
                "all-at-once",
                together,
                "You moved every coordinate at once: that gives one directional derivative. Move one coordinate at a time.",
            ),
            Mistake(
                "never-stepped-back",
                _accumulated(fn, x, eps),
                "A coordinate that was nudged must come back before the next one is nudged. Start each step from x.",
            ),
        ],
        hint="Compare one entry with the formula by hand: which two points did you evaluate, and what did you divide by?",
        rtol=1e-7,
    )
    scalar = exam.rand(low=0.5, high=1.5, requires_grad=False)
    got = exam.run("it runs on a 0-d input", lambda: central_difference(torch.exp, scalar, 1e-4))
    exam.close(
        "a 0-d input works too",
        got,
        (torch.exp(scalar + 1e-4) - torch.exp(scalar - 1e-4)) / 2e-4,
        hint="A 0-d tensor has one coordinate; the result is 0-d too.",
    )
    single = x.float()
    got = exam.run("it runs in float32", lambda: central_difference(lambda z: (z * z).sum(), single, 0.25))
    exam.close(
        "float32 in, float32 out",
        got,
        2 * single,
        slug="wrong-dtype",
        hint="Make the result with zeros_like(x), so that it follows x's dtype.",
        rtol=1e-3,
        atol=1e-4,
    )


def _accumulated(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> Tensor:
    """What comes out when nudges pile up: each coordinate keeps its +ε while the next ones are nudged."""
    made, moved = torch.empty_like(x), x.clone()
    for i in range(x.numel()):
        moved.view(-1)[i] += eps
        up = fn(moved)
        low = moved.clone()
        low.view(-1)[i] -= 2 * eps
        made.view(-1)[i] = (up - fn(low)) / (2 * eps)
    return made


# -- the best step ----------------------------------------------------------------------------------------------


@exercise("06_debugging/best_step")
def check_best_step(exam: Exam) -> None:
    """``best_step(fn, x, derivative, steps)``: the bottom of the U."""
    best_step = exam.answer()
    steps = [10.0**-k for k in range(1, 17)]

    def central(fn: Callable, x: Tensor, eps: float) -> float:
        return float((fn(x + eps) - fn(x - eps)) / (2 * eps))

    def winner(fn: Callable, x: Tensor, true: float, estimate: Callable = central) -> tuple[float, float]:
        errors = [abs(estimate(fn, x, eps) - true) for eps in steps]
        place = min((k for k, error in enumerate(errors) if not math.isnan(error)), key=errors.__getitem__)
        return steps[place], errors[place]

    def examine(label: str, fn: Callable, x: Tensor, true: float) -> None:
        got = exam.run(f"{label}: it runs", lambda: best_step(fn, x, true, steps))
        exam.that(
            f"{label}: it returns (step, error)",
            isinstance(got, tuple) and len(got) == 2 and all(isinstance(each, float) for each in got),
            f"It returned {got!r}.",
            "not-a-pair",
            "Return two Python numbers, the step and its error: (eps, error). A 0-d tensor becomes one with .item().",
        )
        step, error = winner(fn, x, true)
        by_forward, _ = winner(fn, x, true, lambda f, z, eps: float((f(z + eps) - f(z)) / eps))
        in_double, _ = winner(fn, x.double(), true)
        guesses = [
            Mistake(
                "smallest-step",
                steps[-1],
                "That is the smallest step, where x + ε rounds back to x. Smaller is not better: compare the errors.",
            ),
            Mistake(
                "nan-wins" if math.isnan(central(fn, x, steps[0])) else "largest-step",
                steps[0],
                "At that step the estimate is NaN: x - ε leaves the domain. A NaN compares as false with everything, so it wins or "
                "loses by accident; step over it."
                if math.isnan(central(fn, x, steps[0]))
                else "That is the largest step. Compare the errors of all of them.",
            ),
            Mistake(
                "forward-difference",
                by_forward,
                "That is the best step of the forward difference, near √u. The central difference does best near u^(1/3).",
            ),
            Mistake(
                "computed-in-float64",
                in_double,
                "That is the best step for float64. Compute in the dtype of x: its rounding is what makes the U.",
            ),
        ]
        exam.equal(
            f"{label}: the step is the one with the smallest error",
            got[0],
            step,
            [guess for guess in guesses if guess.value != step],
            "Compute |estimate - derivative| for every step and keep the smallest that is not NaN.",
        )
        exam.that(
            f"{label}: the error belongs to that step",
            math.isclose(got[1], error, rel_tol=1e-6, abs_tol=1e-16),
            f"The error is {error:.6g}, you returned {got[1]:.6g}.",
            "wrong-error",
            "Return the absolute error |estimate - derivative| of the winning step: neither signed, nor relative, nor squared.",
        )

    double = exam.rand(low=0.8, high=1.2, requires_grad=False)
    examine("exp in float64", torch.exp, double, math.exp(double.item()))
    single = double.float()
    examine("sin in float32", torch.sin, single, math.cos(single.item()))
    near_zero = exam.rand(low=0.02, high=0.05, requires_grad=False)
    examine("log near 0, NaN at a large step", torch.log, near_zero, 1 / near_zero.item())


# -- six patients -------------------------------------------------------------------------------------------------


@exercise("06_debugging/repair")
def check_repair(exam: Exam) -> None:
    """Six Functions, each with one fault cured."""
    _check_sine(exam)
    _check_product(exam)
    _check_row_scale(exam)
    _check_cubed(exam)
    _check_root(exam)
    _check_mean(exam)


def _check_sine(exam: Exam) -> None:
    Sine = exam.function("Sine")
    x, upstream = exam.randn(2, 3), exam.randn(2, 3, requires_grad=False)
    (gradient,) = exam.gradients("Sine: backward runs", Sine.apply, [x], upstream)
    local = x.detach().cos()
    exam.close(
        "Sine: backward gives cos(x) times grad_output",
        gradient,
        upstream * local,
        [
            Mistake(
                "sine-forgot-upstream",
                local,
                "Sine still ignores grad_output: right under .sum(), wrong for every other loss.",
            ),
            Mistake(
                "sine-wrong-sign", -upstream * local, "The derivative of sin is cos, without a minus sign."
            ),
        ],
    )


def _check_product(exam: Exam) -> None:
    Product = exam.function("Product")
    a, b = exam.randn(2, 3), exam.randn(2, 3)
    upstream = exam.randn(2, 3, requires_grad=False)
    grad_a, grad_b = exam.gradients("Product: backward runs", Product.apply, [a, b], upstream)
    swapped = "Product still gives a the gradient of b. d(ab)/da is b: the first value returned belongs to the first input."
    exam.close(
        "Product: the gradient of a is b times grad_output",
        grad_a,
        upstream * b.detach(),
        [Mistake("product-swapped", upstream * a.detach(), swapped)],
    )
    exam.close("Product: the gradient of b is a times grad_output", grad_b, upstream * a.detach())


def _check_row_scale(exam: Exam) -> None:
    RowScale = exam.function("RowScale")
    x, s = exam.randn(4, 3), exam.randn(3)
    upstream = exam.randn(4, 3, requires_grad=False)
    wrong_axis = (
        "returned an invalid gradient at index 1",
        "row-scale-wrong-axis",
        "s is shared by all rows, so its gradient is a sum over the rows (dimension 0). You summed over another dimension.",
    )
    grad_x, grad_s = exam.gradients("RowScale: backward runs", RowScale.apply, [x, s], upstream, [wrong_axis])
    total = (upstream * x.detach()).sum(0)
    exam.close("RowScale: the gradient of x is s times grad_output", grad_x, upstream * s.detach())
    exam.close(
        "RowScale: the gradient of s is summed over the rows",
        grad_s,
        total,
        [
            Mistake(
                "row-scale-mean",
                total / 4,
                "A mean over the rows is the sum divided by their number: use the sum.",
            )
        ],
    )
    square, scale = exam.randn(3, 3), exam.randn(3)
    upstream = exam.randn(3, 3, requires_grad=False)
    _, grad_s = exam.gradients(
        "RowScale: it runs on a square input", RowScale.apply, [square, scale], upstream
    )
    exam.close("RowScale: right on a square input too", grad_s, (upstream * square.detach()).sum(0), [
        Mistake("row-scale-wrong-axis", (upstream * square.detach()).sum(1), wrong_axis[2])])  # fmt: skip


def _check_cubed(exam: Exam) -> None:
    Cubed = exam.function("Cubed")
    x, upstream = exam.randn(2, 3), exam.randn(2, 3, requires_grad=False)
    (gradient,) = exam.gradients("Cubed: backward runs", Cubed.apply, [x], upstream)
    exam.close("Cubed: backward gives 3x² times grad_output", gradient, upstream * 3 * x.detach() ** 2)
    leaf = exam.randn(2, 3)

    def changed_in_place() -> None:
        z = leaf * 1.0
        y = Cubed.apply(z)
        with torch.no_grad():
            z.mul_(2.0)
        y.sum().backward()

    exam.raises(
        "Cubed: it notices that its input was changed in place",
        changed_in_place,
        RuntimeError,
        "The input was doubled between forward and backward, and backward went on with the new numbers.",
        "cubed-keeps-x-on-ctx",
        "A tensor kept as ctx.x has no version check. ctx.save_for_backward(x) records the version and raises when it changed.",
    )


def _check_root(exam: Exam) -> None:
    Root = exam.function("Root")
    x = torch.cat([torch.zeros(1, dtype=torch.float64), exam.rand(3, low=0.2, high=4.0, requires_grad=False)])
    x.requires_grad_()
    upstream = exam.randn(4, requires_grad=False)
    (gradient,) = exam.gradients("Root: backward runs", Root.apply, [x], upstream)
    expected = torch.cat([torch.zeros(1, dtype=torch.float64), upstream[1:] / (2 * x.detach()[1:].sqrt())])
    plain = upstream / (2 * x.detach().sqrt())
    nan_at_zero = torch.where(x.detach() == 0, torch.nan, plain)
    too_late = (
        "0 times infinity is NaN. Replace the divisor where x is 0 before you divide; "
        "masking afterwards with a product is too late."
    )
    exam.close(
        "Root: backward gives grad_output / 2√x, and 0 at x = 0",
        gradient,
        expected,
        [
            Mistake("root-nan-at-zero", nan_at_zero, too_late),
            Mistake(
                "root-infinite-at-zero",
                plain,
                "At x = 0 you divide by zero. Agree on 0 there, and keep the division away from it.",
            ),
            Mistake(
                "root-adds-epsilon",
                upstream / (2 * (x.detach() + 1e-8).sqrt()),
                "A small number under the root moves the gradient everywhere and leaves a huge one at 0. Treat x = 0 by itself.",
            ),
        ],
        hint="Look at the first entry, where x is 0.",
        atol=1e-12,
    )
    (gradient,) = exam.gradients(
        "Root: a zero upstream runs", Root.apply, [x], torch.zeros(4, dtype=torch.float64)
    )
    exam.close(
        "Root: a zero upstream gradient gives zeros",
        gradient,
        torch.zeros(4, dtype=torch.float64),
        slug="root-nan-at-zero",
        hint=too_late,
    )


def _check_mean(exam: Exam) -> None:
    Mean = exam.function("Mean")
    x, upstream = exam.randn(2, 3), exam.randn(requires_grad=False)
    before = upstream.clone()
    (gradient,) = exam.gradients("Mean: backward runs", Mean.apply, [x], upstream)
    exam.that(
        "Mean: grad_output is as it was",
        torch.equal(upstream, before),
        f"grad_output was {before.item():.5g} and is now {upstream.item():.5g}.",
        "mean-overwrites-upstream",
        "grad_output belongs to whoever called backward; /= overwrites it. Make a new tensor: grad_output / n.",
    )
    exam.close(
        "Mean: every entry gets grad_output / n",
        gradient,
        (upstream / 6).expand(2, 3),
        [
            Mistake(
                "mean-forgot-n",
                upstream.expand(2, 3),
                "That is the gradient of a sum. A mean divides by the number of entries.",
            ),
            Mistake(
                "mean-wrong-n",
                (upstream / 2).expand(2, 3),
                "Divide by all entries (numel), not by the first dimension.",
            ),
        ],
    )


# -- a surrogate against its rule -----------------------------------------------------------------------------------


class _Round(torch.autograd.Function):
    """Straight-through rounding: a true rule to be accepted."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * 1.0


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return -0.3 * grad_output


class _IgnoresUpstream(torch.autograd.Function):
    """Right for an upstream gradient of ones, wrong for every other."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return torch.ones_like(grad_output)


class _LastEntryWrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        gradient = grad_output.clone()
        gradient.view(-1)[-1] *= 1.5
        return gradient


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> None:
        return None


def _straight_through(x: Tensor, grad_output: Tensor) -> Tensor:
    return grad_output


def _reversed(x: Tensor, grad_output: Tensor) -> Tensor:
    return -(grad_output + grad_output + grad_output) / 10  # equal to -0.3 * grad_output up to rounding


@exercise("06_debugging/surrogate_check")
def check_surrogate_check(exam: Exam) -> None:
    """``follows_rule(fn, rule, x)``: a deliberate departure is tested against its rule."""
    follows_rule = exam.answer()
    x = exam.randn(3, 4, requires_grad=False) * 3
    before = x.clone()
    no_gradient = (
        "There may be no gradient at all: y.requires_grad is False, or (with allow_unused=True) the gradient is None. "
        "Ask before you compare, and answer False."
    )
    gradcheck = "gradcheck compares with the true derivative, and a surrogate departs from it on purpose. Compare with the rule."

    def examine(fact: str, fn: Callable, rule: Callable, expected: bool, slug: str, hint: str) -> None:
        got = exam.run(
            fact,
            lambda: follows_rule(fn, rule, x),
            [
                ("NoneType", "crashes-without-gradient", no_gradient),
                (
                    "does not require grad|not have been used|appears to not",
                    "crashes-without-gradient",
                    no_gradient,
                ),
                ("GradcheckError|Jacobian mismatch", "uses-gradcheck", gradcheck),
            ],
        )
        exam.that(
            f"{fact}: the answer is a bool",
            isinstance(got, bool),
            f"The answer is a {type(got).__name__}: {got!r}"[:200],
            "not-a-bool",
            "Return one True or False: torch.allclose gives it, == gives a tensor of them.",
        )
        exam.equal(fact, got, expected, hint=hint, slug=slug)

    identity_rule = (
        "Its backward passes grad_output on, as the rule says; the forward (a round) is not what is compared."
    )
    examine(
        "a straight-through round follows its rule",
        _Round.apply,
        _straight_through,
        True,
        "rejects-a-true-rule",
        identity_rule,
    )
    examine(
        "a reversed gradient follows its rule, up to rounding",
        _Reverse.apply,
        _reversed,
        True,
        "compares-exactly",
        "The two are equal but for the last bit. Compare with a tolerance: torch.allclose.",
    )
    examine(
        "a reversed gradient does not follow the straight-through rule",
        _Reverse.apply,
        _straight_through,
        False,
        "accepts-everything",
        "-0.3 times grad_output is not grad_output. What is compared with what?",
    )
    examine(
        "a backward that ignores grad_output is caught",
        _IgnoresUpstream.apply,
        _straight_through,
        False,
        "upstream-of-ones",
        "With an upstream gradient of ones (which .sum() gives) this backward looks right. Use a random one.",
    )
    examine(
        "one wrong entry is caught",
        _LastEntryWrong.apply,
        _straight_through,
        False,
        "compares-a-part",
        "Only the last entry is wrong here. Compare every entry, not a sum, a mean or the first one.",
    )
    examine("a missing gradient is caught", _NoGradient.apply, _straight_through, False, "accepts-a-missing-gradient",
            "None is not the gradient that the rule asks for.")  # fmt: skip
    examine("a detached output is caught", torch.Tensor.detach, _straight_through, False, "accepts-a-missing-gradient",
            "An output without a graph has no gradient at all.")  # fmt: skip
    exam.that(
        "x is as it was afterwards",
        torch.equal(x, before) and not x.requires_grad and x.grad is None,
        "x came back changed, or requiring a gradient.",
        "changes-x",
        "x belongs to the caller. Work on x.detach().clone().requires_grad_().",
    )


# -- a second derivative --------------------------------------------------------------------------------------------


@exercise("06_debugging/gradgradcheck")
def check_gradgradcheck(exam: Exam) -> None:
    """``Quartic``: y = x⁴ with derivatives of every order."""
    Quartic = exam.function()
    x, upstream = exam.randn(2, 3), exam.randn(2, 3, requires_grad=False)
    y = exam.run("forward runs", lambda: Quartic.apply(x))
    exam.close("forward gives x⁴", y, x.detach() ** 4)
    local = 4 * x.detach() ** 3
    (first,) = exam.gradients("backward runs", Quartic.apply, [x], upstream, create_graph=True)
    exam.close(
        "backward gives 4x³ times grad_output",
        first,
        upstream * local,
        [
            Mistake(
                "forgot-upstream",
                local,
                "Multiply by grad_output: the local derivative alone is right under .sum() only.",
            ),
            Mistake(
                "power-three", upstream * 3 * x.detach() ** 3, "The power comes down as a factor: 4, not 3."
            ),
            Mistake("wrong-power", upstream * 4 * x.detach() ** 2, "The power goes down by one: x³, not x²."),
        ],
    )
    exam.that(
        "the gradient has a graph of its own",
        first.requires_grad,
        "With create_graph=True the gradient still does not require a gradient.",
        "gradient-without-graph",
        "Something cut the graph: a detach, a no_grad, NumPy, a ctx attribute made in forward, or once_differentiable, "
        "which refuses a second derivative where this task asks for one. Build the gradient from saved inputs.",
    )
    second = exam.run(
        "a second backward runs",
        lambda: torch.autograd.grad(first, x, torch.ones_like(first), create_graph=True, allow_unused=True)[
            0
        ],
        [
            (
                "once_differentiable",
                "refuses",
                "@once_differentiable is honest, but it refuses. Here a second derivative is wanted: build the gradient from x.",
            )
        ],
    )
    expected = upstream * 12 * x.detach() ** 2
    constant = "The saved intermediate counts as a constant in backward, so a part of the derivative is missing. Save x and recompute."
    exam.close(
        "the second derivative is 12x² times grad_output",
        second,
        expected,
        [
            Mistake("saved-intermediate", expected / 3, constant),
            Mistake("saved-intermediate", expected * 2 / 3, constant),
            Mistake("saved-intermediate", expected * 0, constant),
            Mistake(
                "none-gradient",
                None,
                "The second derivative does not reach x: whatever backward used was not x itself. Save x.",
            ),
        ],
        hint=constant,
    )
    (third,) = torch.autograd.grad(second, x, torch.ones_like(second), allow_unused=True)
    exam.close(
        "the third derivative is 24x times grad_output",
        third,
        upstream * 24 * x.detach(),
        slug="saved-intermediate",
        hint=constant,
    )
    leaf = exam.randn(3)

    def changed_in_place() -> None:
        z = leaf * 1.0
        y = Quartic.apply(z)
        with torch.no_grad():
            z.mul_(2.0)
        y.sum().backward()

    exam.raises(
        "it notices that its input was changed in place",
        changed_in_place,
        RuntimeError,
        "The input was doubled between forward and backward, and backward went on with the new numbers.",
        "keeps-x-on-ctx",
        "A tensor kept as ctx.x has no version check, and is not freed. Use ctx.save_for_backward(x).",
    )
