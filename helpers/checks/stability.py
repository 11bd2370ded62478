"""Checks of ``exercises/04_numerical_stability.ipynb``."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .exam import Exam, exercise
from .verdict import Mistake

WRONG_COUNT = (
    "incorrect number of gradients",
    "wrong-count",
    "apply has two arguments, so backward returns two values: the gradient of x, and None for the number.",
)
NO_UNSQUEEZE = (
    "must match the size|invalid gradient|broadcast",
    "forgot-unsqueeze",
    "The output has lost a dimension that x still has. unsqueeze(dim) brings it back, for grad_output and for the saved output.",
)
DOUBLE = torch.float64


@exercise("04_numerical_stability/double_where")
def check_double_where(exam: Exam) -> None:
    """``safe_sqrt``: a guard that guards the gradient too."""
    safe_sqrt = exam.answer()
    x = torch.cat(
        [torch.tensor([0.0, -1.5], dtype=DOUBLE), exam.rand(3, low=0.2, high=4.0, requires_grad=False)]
    ).requires_grad_()
    z = x.detach()
    value = torch.where(z > 0, z.clamp(min=0).sqrt(), 0.0)
    y = exam.run("it runs on zero, negative and positive numbers", lambda: safe_sqrt(x))
    exam.close(
        "the value is the root where x > 0, and 0 elsewhere",
        y,
        value,
        [
            Mistake("adds-epsilon", (z.clamp(min=0) + 1e-12).sqrt(), "A small constant leaves 1e-6 where 0 should be: none is needed."),
            Mistake("adds-epsilon", (z.clamp(min=0) + 1e-8).sqrt(), "A small constant leaves 1e-4 where 0 should be: none is needed."),
            Mistake("root-of-absolute", z.abs().sqrt(), "Negative numbers should give 0, not the root of their absolute value."),
        ],
        hint="Which branch did each entry take?",
        atol=1e-12,
    )  # fmt: skip
    upstream = exam.randn(5, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", safe_sqrt, [x], upstream)
    expected = torch.where(z > 0, upstream / (2 * value.clamp(min=0.1)), 0.0)
    single = torch.where(z > 0, expected, torch.nan)
    one_nan = expected.clone()
    one_nan[0] = torch.nan
    infinite = expected.clone()
    infinite[0] = math.inf * upstream[0].sign()
    why = "The branch not taken is differentiated too: 0 times infinity is NaN. Give the root a harmless number there, before the root."
    exam.close(
        "the gradient is 1/(2√x) where x > 0, and 0 elsewhere",
        gradient,
        expected,
        [
            Mistake("single-where", single, why),
            Mistake("single-where", one_nan, why),
            Mistake(
                "infinite-at-zero",
                infinite,
                "At exactly 0 the root still sees 0 and its slope is infinite. Decide with x > 0, and feed the root something else.",
            ),
        ],
        hint=why,
    )
    (gradient,) = exam.gradients("a zero upstream runs", safe_sqrt, [x], torch.zeros(5, dtype=DOUBLE))
    exam.close(
        "a zero upstream gradient gives zeros",
        gradient,
        torch.zeros(5, dtype=DOUBLE),
        hint=why,
        slug="single-where",
    )
    tiny = torch.tensor([1e-30, 1e30], requires_grad=True)
    y = exam.run("it runs in float32", lambda: safe_sqrt(tiny))
    exam.close("tiny and huge numbers keep their root", y, tiny.detach().sqrt(), slug="threshold-too-high",
               hint="Compare with 0, not with a small constant: 1e-30 has a root.", atol=0.0)  # fmt: skip


@exercise("04_numerical_stability/logsumexp")
def check_logsumexp(exam: Exam) -> None:
    """``LogSumExp``: stable value, gradient and second derivative."""
    LogSumExp = exam.function()
    x = 2 * exam.randn(4, 3, requires_grad=False)
    x.requires_grad_()
    for dim in (1, 0, -1):
        y = exam.run(
            f"forward runs along dim {dim}",
            lambda dim=dim: LogSumExp.apply(x, dim),
            [
                (
                    "must match the size",
                    "max-without-keepdim",
                    "The largest value needs its dimension kept to be subtracted: keepdim=True.",
                )
            ],
        )
        exam.close(
            f"the value along dim {dim}",
            y,
            x.detach().logsumexp(dim),
            [
                Mistake(
                    "forgot-to-add-back",
                    x.detach().logsumexp(dim) - x.detach().amax(dim),
                    "You subtracted the largest value and never added it back.",
                ),
                Mistake(
                    "keeps-the-dimension",
                    x.detach().logsumexp(dim, keepdim=True),
                    "The dimension should disappear: squeeze(dim).",
                ),
            ],
            hint="Subtract the largest value along dim, take log-sum-exp, add it back.",
        )
    extreme = torch.tensor(
        [[1000.0, 0.0], [-1000.0, -1000.0], [-math.inf, -math.inf], [-math.inf, 3.0]],
        dtype=DOUBLE,
        requires_grad=True,
    )
    right = torch.tensor([1000.0, -1000.0 + math.log(2), -math.inf, 3.0], dtype=DOUBLE)
    z = extreme.detach()
    y = exam.run("forward runs on extreme numbers", lambda: LogSumExp.apply(extreme, 1))
    largest = z.amax(1, keepdim=True)
    plain = ((z - largest).exp().sum(1, keepdim=True).log() + largest).squeeze(1)
    exam.close(
        "extreme numbers neither overflow nor underflow",
        y,
        right,
        [
            Mistake(
                "naive",
                z.exp().sum(1).log(),
                "exp(1000) overflows and exp(-1000) underflows. Subtract the largest value first.",
            ),
            Mistake(
                "one-shift-for-all",
                (z - z.max()).exp().sum(1).log() + z.max(),
                "One shift for the whole tensor lets the smaller rows underflow. Take the largest value along dim.",
            ),
            Mistake(
                "all-minus-infinity",
                plain,
                "Where all entries are -inf, so is the largest, and -inf - (-inf) is NaN. Use a shift of 0 there.",
            ),
        ],
        hint="Look at the row that differs: what is its largest entry, and what is left after the shift?",
    )
    upstream = exam.randn(4, requires_grad=False)
    (gradient,) = exam.gradients(
        "backward runs", lambda a: LogSumExp.apply(a, 1), [x], upstream, [WRONG_COUNT, NO_UNSQUEEZE]
    )
    softmax = x.detach().softmax(1)
    exam.close(
        "backward gives softmax times grad_output",
        gradient,
        softmax * upstream[:, None],
        [
            Mistake("forgot-upstream", softmax, "That is the softmax alone. Multiply by grad_output."),
            Mistake(
                "unnormalised",
                x.detach().exp() * upstream[:, None],
                "exp(x) is not normalised: exp(x - y) sums to one.",
            ),
            Mistake(
                "log-softmax",
                x.detach().log_softmax(1) * upstream[:, None],
                "x - y is the log-softmax; take exp of it.",
            ),
        ],
        hint="The derivative is exp(x - y), the softmax.",
    )
    square = exam.randn(3, 3)
    upstream = exam.randn(3, requires_grad=False)
    (gradient,) = exam.gradients(
        "backward runs on a square input", lambda a: LogSumExp.apply(a, 1), [square], upstream, [NO_UNSQUEEZE]
    )
    right = square.detach().softmax(1)
    exam.close(
        "each row meets its own upstream gradient",
        gradient,
        right * upstream[:, None],
        [
            Mistake(
                "forgot-unsqueeze",
                right * upstream,
                "grad_output was laid along the wrong dimension. Use unsqueeze(dim).",
            )
        ],
    )
    (gradient,) = exam.gradients(
        "backward runs on extreme numbers",
        lambda a: LogSumExp.apply(a, 1),
        [extreme],
        torch.ones(4, dtype=DOUBLE),
    )
    exam.close(
        "extreme numbers have finite gradients",
        gradient,
        torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0], [0.0, 1.0]], dtype=DOUBLE),
        slug="nan-gradient",
        hint="A stable forward is not yet a stable backward. exp(x - y) never overflows; where y is -inf subtract something finite.",
    )
    weight = exam.randn(4, 3, requires_grad=False)

    def second(fn) -> Tensor:
        (first,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True)
        return torch.autograd.grad((first * weight).sum(), x, allow_unused=True)[0]

    got = exam.run(
        "the gradient can be differentiated again",
        lambda: second(lambda a: LogSumExp.apply(a, 1)),
        [
            (
                "does not require grad|once_differentiable",
                "second-derivative",
                "Something that backward reads is a constant. Save x and the output: autograd knows both.",
            )
        ],
    )
    exam.close(
        "the second derivative is right",
        got,
        second(lambda a: a.logsumexp(1)),
        slug="second-derivative",
        hint="A saved softmax is neither input nor output, so backward takes it for a constant. Save x and the output.",
    )


@exercise("04_numerical_stability/log1mexp")
def check_log1mexp(exam: Exam) -> None:
    """``log1mexp``: accurate at both ends, and so is its gradient."""
    log1mexp = exam.answer()
    middle = exam.rand(4, low=0.3, high=3.0)
    y = exam.run("it runs", lambda: log1mexp(middle))
    z = middle.detach()
    exam.close(
        "ordinary numbers: log(1 - exp(-x))",
        y,
        (1 - (-z).exp()).log(),
        [
            Mistake(
                "wrong-sign-inside",
                (z.exp() - 1).log(),
                "That is log(exp(x) - 1). The exponent is -x, and it is 1 - exp(-x).",
            ),
            Mistake(
                "log1p-of-exp",
                torch.log1p((-z).exp()),
                "That is log(1 + exp(-x)). Here the exponential is subtracted.",
            ),
        ],
    )
    ends = torch.tensor([1e-20, 1e-9, 50.0, 700.0], dtype=DOUBLE)
    near, far = ends[:2], ends[2:]
    by_expm1, by_log1p = (-torch.expm1(-ends)).log(), torch.log1p(-(-ends).exp())
    got = exam.run("it runs at both ends", lambda: log1mexp(ends.clone()))
    exam.close(
        "no digits are lost, neither near 0 nor far away",
        got,
        torch.cat([by_expm1[:2], by_log1p[2:]]),
        [
            Mistake(
                "naive",
                (1 - (-ends).exp()).log(),
                "Near 0 the digits of 1 - exp(-x) are lost, far away it rounds to 1. log(-expm1(-x)) is for small x, log1p(-exp(-x)) for large.",
            ),
            Mistake(
                "clamped",
                (1 - (-ends).exp()).clamp(min=1e-12).log(),
                "A clamp hides the infinity and keeps the error: the digits of 1 - exp(-x) are lost before it.",
            ),
            Mistake(
                "only-log1p",
                by_log1p,
                "log1p does not help near 0, where exp(-x) has rounded to 1. Use log(-expm1(-x)) for small x.",
            ),
            Mistake(
                "only-expm1",
                by_expm1,
                "Far away -expm1(-x) has rounded to 1, and log(1) is 0. Use log1p(-exp(-x)) for large x.",
            ),
        ],
        rtol=1e-9,
        atol=0.0,
    )
    both = torch.cat([near, z, far]).requires_grad_()
    upstream = exam.rand(8, low=0.5, high=2.0, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", log1mexp, [both], upstream)
    right = upstream / torch.expm1(both.detach())
    exam.close(
        "the gradient is 1/(exp(x) - 1) times grad_output, finite at both ends",
        gradient,
        right,
        slug="single-where",
        hint="torch.where differentiates both branches, and the one not taken has an infinite slope near 0: 0 times infinity is NaN. "
        "Feed each branch a harmless number where it is not taken.",
        atol=0.0,
    )


@exercise("04_numerical_stability/safe_norm")
def check_safe_norm(exam: Exam) -> None:
    """``SafeNorm``: no constant, no NaN, no overflow."""
    SafeNorm = exam.function()
    x = exam.randn(4, 3)
    z = x.detach()
    for dim in (1, 0):
        y = exam.run(f"forward runs along dim {dim}", lambda dim=dim: SafeNorm.apply(x, dim))
        exam.close(
            f"the norm along dim {dim}",
            y,
            z.norm(dim=dim),
            [
                Mistake("sum-of-absolutes", z.abs().sum(dim), "A sum of absolute values. The Euclidean norm squares, sums, and takes the root."),
                Mistake("forgot-the-root", z.square().sum(dim), "That is the square of the norm: the root is missing."),
                Mistake("keeps-the-dimension", z.norm(dim=dim, keepdim=True), "The dimension should disappear: squeeze(dim)."),
            ],
        )  # fmt: skip
    extreme = torch.tensor([[0.0, 0.0], [3e200, 4e200], [3e-200, 4e-200]], dtype=DOUBLE, requires_grad=True)
    right = torch.tensor([0.0, 5e200, 5e-200], dtype=DOUBLE)
    y = exam.run("forward runs on extreme numbers", lambda: SafeNorm.apply(extreme, 1))
    naive = extreme.detach().square().sum(1).sqrt()
    exam.close(
        "zero, huge and tiny numbers have their norm",
        y,
        right,
        [
            Mistake(
                "squares-overflow",
                naive,
                "The squares of 1e200 overflow and those of 1e-200 vanish. Divide by the largest entry first.",
            ),
            Mistake(
                "zero-over-zero",
                torch.where(right == 0, torch.nan, right),
                "A row of zeros has largest entry 0, and 0/0 is NaN. Divide by 1 there.",
            ),
            Mistake(
                "one-scale-for-all",
                torch.tensor([0.0, 5e200, 0.0], dtype=DOUBLE),
                "Everything was divided by one largest entry, so a row of tiny numbers vanishes beside a row of huge "
                "ones. Take the largest entry along dim, with keepdim=True.",
            ),
            Mistake("adds-epsilon", right + 1e-12, "A constant was added: a row of zeros has norm 0."),
            Mistake("adds-epsilon", right + 1e-8, "A constant was added: a row of zeros has norm 0."),
        ],
        atol=0.0,
    )
    upstream = exam.randn(4, requires_grad=False)
    (gradient,) = exam.gradients(
        "backward runs", lambda a: SafeNorm.apply(a, 1), [x], upstream, [WRONG_COUNT, NO_UNSQUEEZE]
    )
    unit = z / z.norm(dim=1, keepdim=True)
    exam.close(
        "backward gives x / norm times grad_output",
        gradient,
        unit * upstream[:, None],
        [
            Mistake("forgot-upstream", unit, "Multiply by grad_output."),
            Mistake(
                "forgot-to-divide",
                z * upstream[:, None],
                "The derivative of the norm is x divided by the norm.",
            ),
            Mistake(
                "twice",
                2 * unit * upstream[:, None],
                "The 2 from the square and the 1/2 from the root cancel.",
            ),
        ],
    )
    square = exam.randn(3, 3)
    upstream = exam.randn(3, requires_grad=False)
    (gradient,) = exam.gradients(
        "backward runs on a square input", lambda a: SafeNorm.apply(a, 1), [square], upstream, [NO_UNSQUEEZE]
    )
    unit = square.detach() / square.detach().norm(dim=1, keepdim=True)
    exam.close(
        "each row meets its own upstream gradient",
        gradient,
        unit * upstream[:, None],
        [
            Mistake(
                "forgot-unsqueeze",
                unit * upstream,
                "grad_output was laid along the wrong dimension. Use unsqueeze(dim).",
            ),
            Mistake(
                "forgot-unsqueeze",
                square.detach() / square.detach().norm(dim=1) * upstream[:, None],
                "The saved norm was laid along the wrong dimension. Use unsqueeze(dim).",
            ),
        ],
    )
    (gradient,) = exam.gradients(
        "backward runs on extreme numbers",
        lambda a: SafeNorm.apply(a, 1),
        [extreme],
        torch.ones(3, dtype=DOUBLE),
    )
    exam.close(
        "a row of zeros has gradient 0, the others keep their direction",
        gradient,
        torch.tensor([[0.0, 0.0], [0.6, 0.8], [0.6, 0.8]], dtype=DOUBLE),
        [
            Mistake(
                "one-at-zero",
                torch.tensor([[1.0, 1.0], [0.6, 0.8], [0.6, 0.8]], dtype=DOUBLE),
                "Where the norm is 0 the gradient is agreed to be 0.",
            )
        ],
        slug="nan-at-zero",
        hint="x / norm is 0/0 in a row of zeros. Replace the norm by 1 there before dividing.",
    )


@exercise("04_numerical_stability/clip_norm")
def check_clip_norm(exam: Exam) -> None:
    """``ClipGradientNorm``: shortened, never turned."""
    ClipGradientNorm = exam.function()
    x = exam.randn(3, 4)
    limit = 0.5
    y = exam.run("forward runs", lambda: ClipGradientNorm.apply(x, limit))
    norm = x.detach().norm()
    exam.close(
        "forward hands x on unchanged",
        y,
        x.detach(),
        [
            Mistake(
                "clips-the-value",
                x.detach() * limit / norm,
                "You shortened the value. Only the gradient is clipped.",
            ),
            Mistake(
                "clips-the-value",
                x.detach().clamp(-limit, limit),
                "You clamped the value. Only the gradient is clipped.",
            ),
        ],
    )
    upstream = exam.randn(3, 4, requires_grad=False)
    upstream = 3 * upstream / upstream.norm()
    (gradient,) = exam.gradients(
        "backward runs", lambda a: ClipGradientNorm.apply(a, limit), [x], upstream.clone(), [WRONG_COUNT]
    )
    rows = upstream * (limit / upstream.norm(dim=1, keepdim=True)).clamp(max=1.0)
    exam.close(
        "a long gradient is shortened to max_norm, direction kept",
        gradient,
        upstream * limit / 3,
        [
            Mistake(
                "clips-each-entry",
                upstream.clamp(-limit, limit),
                "Clamping entries turns the gradient. Scale the whole of it by one number.",
            ),
            Mistake("per-row", rows, "You clipped row by row. The norm is over all entries."),
            Mistake("not-clipped", upstream, "The gradient passes unclipped: its norm is 3, the limit 0.5."),
            Mistake("unit-norm", upstream / 3, "It has norm 1 now, not max_norm."),
            Mistake(
                "largest-entry",
                upstream * limit / upstream.abs().max(),
                "You measured the largest entry. The Euclidean norm is the root of the sum of squares.",
            ),
            Mistake("max-norm-twice", upstream * limit**2 / 3, "max_norm is in there twice."),
        ],
        hint="Multiply grad_output by max_norm / norm when the norm exceeds max_norm.",
    )
    short = 0.2 * upstream / 3
    (gradient,) = exam.gradients(
        "backward runs on a short gradient", lambda a: ClipGradientNorm.apply(a, limit), [x], short.clone()
    )
    exam.close(
        "a short gradient passes as it is",
        gradient,
        short,
        [
            Mistake(
                "always-rescales",
                limit * upstream / 3,
                "A gradient shorter than max_norm was stretched to it. Clip only what is too long.",
            )
        ],
    )
    zero = torch.zeros_like(upstream)
    (gradient,) = exam.gradients(
        "backward runs on a zero gradient", lambda a: ClipGradientNorm.apply(a, limit), [x], zero.clone()
    )
    exam.close(
        "a zero gradient stays zero",
        gradient,
        zero,
        slug="nan-at-zero",
        hint="The norm is 0, and max_norm / 0 times 0 is NaN. Divide only when the norm exceeds max_norm.",
    )
    mine = upstream.clone()
    exam.gradients("backward runs once more", lambda a: ClipGradientNorm.apply(a, limit), [x], mine)
    exam.that(
        "grad_output is as it was",
        torch.equal(mine, upstream),
        "After backward the caller's upstream gradient has other numbers in it.",
        "overwrites-upstream",
        "mul_, *= and clip_grad_norm_ write into grad_output, which belongs to the caller. Make a new tensor.",
    )
