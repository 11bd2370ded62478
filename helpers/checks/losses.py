"""Checks of ``exercises/05_loss_composition.ipynb``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .exam import Exam, exercise
from .verdict import Mistake

WRONG_COUNT = (
    "incorrect number of gradients",
    "wrong-count",
    "apply has two arguments, so backward returns two values: the gradient of x, and None for the number.",
)


def _upstream_is_left_alone(exam: Exam, fn: Callable[[Tensor], Tensor]) -> None:
    """``grad_output`` belongs to the caller: backward may read it, not write into it."""
    x, upstream = exam.randn(2, 3), exam.randn(2, 3, requires_grad=False)
    before = upstream.clone()
    exam.gradients("backward runs with another upstream gradient", fn, [x], upstream)
    exam.that(
        "grad_output is as it was",
        torch.equal(upstream, before),
        "After backward the caller's upstream gradient has other numbers in it.",
        "overwrites-upstream",
        "An operation with a trailing underscore, or *=, writes into grad_output, which belongs to the caller. Make a new tensor.",
    )
    (gradient,) = exam.gradients(
        "backward runs after .sum()",
        lambda z: fn(z).sum(),
        [x],
        torch.tensor(1.0, dtype=torch.float64),
        [
            (
                "single memory location|expanded",
                "overwrites-upstream",
                "After .sum() grad_output is one number seen six times, and writing into it is refused. Make a new tensor.",
            )
        ],
    )
    exam.that(
        "and gives a gradient of x's shape",
        gradient is not None and gradient.shape == x.shape,
        "It does not.",
        "wrong-shape",
    )


def _identity_forward(
    exam: Exam, fn: Callable[[Tensor], Tensor], x: Tensor, mistakes: Sequence[Mistake]
) -> None:
    y = exam.run("forward runs", lambda: fn(x))
    exam.close(
        "forward hands x on unchanged",
        y,
        x.detach(),
        mistakes,
        hint="The value must not change: return x.view_as(x).",
    )


@exercise("05_loss_composition/reversal")
def check_reversal(exam: Exam) -> None:
    """``ReverseGradient``: identity forward, -scale times upstream backward."""
    ReverseGradient = exam.function()
    scale = 0.7
    x, upstream = exam.randn(3, 2), exam.randn(3, 2, requires_grad=False)
    _identity_forward(
        exam,
        lambda z: ReverseGradient.apply(z, scale),
        x,
        [
            Mistake(
                "reverses-the-value",
                -x.detach(),
                "Your forward turns the value round. Only the gradient is reversed; the dish stays the same.",
            ),
            Mistake(
                "reverses-the-value",
                -scale * x.detach(),
                "Your forward scales and turns the value. Only the gradient is reversed; the dish stays the same.",
            ),
        ],
    )
    (gradient,) = exam.gradients(
        "backward runs", lambda z: ReverseGradient.apply(z, scale), [x], upstream.clone(), [WRONG_COUNT]
    )
    exam.close(
        "backward gives -scale times grad_output",
        gradient,
        -scale * upstream,
        [
            Mistake(
                "forgot-the-minus", scale * upstream, "Scaled, but not reversed: the minus sign is missing."
            ),
            Mistake(
                "forgot-the-scale",
                -upstream,
                "Reversed, but not scaled: keep scale on ctx and multiply by it.",
            ),
            Mistake(
                "forgot-upstream",
                torch.full_like(upstream, -scale),
                "That is the local derivative alone. Multiply it by grad_output.",
            ),
            Mistake("not-reversed", upstream, "The gradient passes as it came. Multiply it by -scale."),
        ],
    )
    (gradient,) = exam.gradients(
        "scale 0 runs", lambda z: ReverseGradient.apply(z, 0.0), [x], upstream.clone()
    )
    exam.close(
        "scale 0 gives zeros",
        gradient,
        torch.zeros_like(upstream),
        hint="Use the scale of this call, not a fixed one.",
    )
    _upstream_is_left_alone(exam, lambda z: ReverseGradient.apply(z, scale))
    first = ReverseGradient.apply(x, 2.0)
    ReverseGradient.apply(x, 5.0)
    (gradient,) = torch.autograd.grad(first, x, upstream)
    exam.close(
        "each use keeps its own scale",
        gradient,
        -2.0 * upstream,
        [
            Mistake(
                "scale-is-shared",
                -5.0 * upstream,
                "The later call's scale reached the earlier call's backward: it lives on the class. Keep it on ctx.",
            )
        ],
    )


@exercise("05_loss_composition/scale")
def check_scale(exam: Exam) -> None:
    """``ScaleGradient``: identity forward, scale times upstream backward."""
    ScaleGradient = exam.function()
    scale = 0.3
    x, upstream = exam.randn(3, 2), exam.randn(3, 2, requires_grad=False)
    both = "Your forward scales the value as well. The value stays; only the gradient is scaled."
    _identity_forward(
        exam,
        lambda z: ScaleGradient.apply(z, scale),
        x,
        [Mistake("scales-the-value", scale * x.detach(), both)],
    )
    (gradient,) = exam.gradients(
        "backward runs", lambda z: ScaleGradient.apply(z, scale), [x], upstream.clone(), [WRONG_COUNT]
    )
    exam.close(
        "backward gives scale times grad_output",
        gradient,
        scale * upstream,
        [
            Mistake(
                "not-scaled",
                upstream,
                "The gradient passes as it came: multiply it by the scale kept on ctx.",
            ),
            Mistake("divides", upstream / scale, "You divided by the scale; multiply by it."),
            Mistake("scaled-twice", scale**2 * upstream, "The scale is in there twice."),
            Mistake("reversed", -scale * upstream, "That reverses the gradient too. Only scale it."),
            Mistake(
                "forgot-upstream",
                torch.full_like(upstream, scale),
                "That is the local derivative alone. Multiply it by grad_output.",
            ),
        ],
    )
    (gradient,) = exam.gradients("scale 0 runs", lambda z: ScaleGradient.apply(z, 0.0), [x], upstream.clone())
    exam.close(
        "scale 0 gives zeros",
        gradient,
        torch.zeros_like(upstream),
        [
            Mistake(
                "zero-taken-for-missing",
                upstream,
                "0 counts as false: `scale or 1.0` and `if scale` take it for a missing value.",
            )
        ],
    )
    _upstream_is_left_alone(exam, lambda z: ScaleGradient.apply(z, scale))
    weight = exam.randn(3, 2, requires_grad=False)
    (first,) = exam.gradients(
        "a gradient of the gradient can be asked for",
        lambda z: (weight * ScaleGradient.apply(z, scale) ** 2).sum(),
        [x],
        torch.tensor(1.0, dtype=torch.float64),
        create_graph=True,
    )
    exam.that(
        "the gradient has a graph of its own",
        first.requires_grad,
        "With create_graph=True the gradient still does not require a gradient.",
        "gradient-without-graph",
        "A detach, .data, no_grad or once_differentiable cuts it. ctx.scale * grad_output needs none of them.",
    )


@exercise("05_loss_composition/straight_through")
def check_straight_through(exam: Exam) -> None:
    """``StraightThroughRound``: round forward, identity backward."""
    StraightThroughRound = exam.function()
    x = 2 * exam.randn(3, 4, requires_grad=False)
    x[0] = torch.tensor([0.5, 1.5, 2.5, -0.5], dtype=x.dtype)
    x.requires_grad_()
    z = x.detach()
    y = exam.run("forward runs", lambda: StraightThroughRound.apply(x))
    exam.close(
        "forward rounds as torch.round does",
        y,
        z.round(),
        [
            Mistake("floors", z.floor(), "That is floor. torch.round goes to the nearest whole number."),
            Mistake(
                "truncates",
                z.trunc(),
                "That cuts the digits off. torch.round goes to the nearest whole number.",
            ),
            Mistake(
                "half-up",
                (z + 0.5).floor(),
                "Adding a half and flooring differs at the halves: torch.round goes to the even neighbour. Call it.",
            ),
            Mistake(
                "does-not-round",
                z,
                "The value was not rounded. Forward is torch.round; only the gradient passes through.",
            ),
        ],
    )
    upstream = exam.randn(3, 4, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", StraightThroughRound.apply, [x], upstream)
    exam.close(
        "backward gives grad_output as it came",
        gradient,
        upstream,
        [
            Mistake("true-derivative", torch.zeros_like(upstream), "The true derivative of a staircase: nothing can learn from it."),
            Mistake("forgot-upstream", torch.ones_like(upstream), "A constant 1 is the derivative you pretend, and it meets grad_output."),
            Mistake("rounds-the-gradient", upstream.round(), "You rounded the gradient as well. It passes untouched."),
            Mistake("multiplies-by-x", upstream * z, "The rule is: the upstream gradient itself, with no factor x."),
            Mistake("multiplies-by-x", upstream * z.round(), "The rule is: the upstream gradient itself, with no factor y."),
            Mistake("clips", upstream * (z.abs() <= 1), "That is the clipped variant for binarised weights. Here nothing is clipped."),
        ],
    )  # fmt: skip
    _upstream_is_left_alone(exam, StraightThroughRound.apply)


@exercise("05_loss_composition/stop_gradient")
def check_stop_gradient(exam: Exam) -> None:
    """Three ways to stop a gradient, each with its own consequences."""
    by_detach = exam.answer("stop_by_detach")
    by_function = exam.answer("stop_by_function")
    by_no_grad = exam.answer("stop_by_no_grad")
    leaf = exam.randn(2, 3)
    x = leaf * 2
    values = x.detach().clone()

    cut = exam.run("stop_by_detach runs", lambda: by_detach(x))
    exam.close("stop_by_detach: the value of x", cut, values)
    exam.that(
        "stop_by_detach: no gradient is required any more",
        not cut.requires_grad,
        "The result still requires a gradient.",
        "detach-keeps-the-edge",
        "x.detach() is a new tensor without history; x itself keeps its own. Return what detach gives you.",
    )
    exam.that(
        "stop_by_detach: it shares memory with x",
        cut.data_ptr() == x.data_ptr(),
        "The result has memory of its own.",
        "detach-copies",
        "A clone costs a copy. x.detach() alone looks at the same numbers.",
    )
    exam.that(
        "stop_by_detach: autograd can notice a change in place",
        _shares_version(by_detach, leaf),
        "A change of the shared memory is invisible to autograd.",
        "uses-data",
        ".data shares memory but not the version counter, so a wrong gradient can go unnoticed. Use .detach().",
    )

    kept = exam.run("stop_by_function runs", lambda: by_function(x))
    exam.close("stop_by_function: the value of x", kept, values, slug="function-changes-the-value",
               hint="Forward is the identity: return x.view_as(x). Only the gradient becomes zero.")  # fmt: skip
    exam.that(
        "stop_by_function: the result still requires a gradient",
        kept.requires_grad,
        "The result requires no gradient: the edge is cut.",
        "function-cuts-the-edge",
        "Do not detach and do not switch recording off: call apply of a Function whose backward returns zeros.",
    )
    upstream = exam.randn(2, 3, requires_grad=False)
    (gradient,) = exam.run(
        "stop_by_function: backward runs",
        lambda: torch.autograd.grad(by_function(x), leaf, upstream, allow_unused=True),
    )
    exam.close(
        "stop_by_function: leaf gets zeros",
        gradient,
        torch.zeros_like(upstream),
        [
            Mistake(
                "none-for-zeros",
                None,
                "None says 'no gradient here', which is not the same as a tensor of zeros: optimisers and DDP treat them differently. "
                "Return torch.zeros_like(grad_output).",
            ),
            Mistake("passes-the-gradient", 2 * upstream, "The gradient passes. Backward must return zeros."),
        ],
    )

    copy = exam.run("stop_by_no_grad runs", lambda: by_no_grad(x))
    exam.close("stop_by_no_grad: the value of x", copy, values)
    exam.that(
        "stop_by_no_grad: no gradient is required any more",
        not copy.requires_grad,
        "The result still requires a gradient.",
        "no-grad-returns-x",
        "no_grad changes what new operations record. Returning x itself is no operation: x keeps its history. Compute a copy inside.",
    )
    exam.that(
        "stop_by_no_grad: memory of its own",
        copy.data_ptr() != x.data_ptr(),
        "The result shares memory with x.",
        "no-grad-shares-memory",
        "The task asks for a copy here: x.clone() inside the no_grad block.",
    )
    exam.that(
        "x still requires a gradient, and recording is on",
        x.requires_grad and leaf.requires_grad and torch.is_grad_enabled(),
        "Something was switched off for the caller as well.",
        "switches-off-the-caller",
        "requires_grad_(False) and set_grad_enabled(False) reach beyond your function. Use a with block, and leave x alone.",
    )


def _shares_version(stop: Callable[[Tensor], Tensor], leaf: Tensor) -> bool:
    x = leaf * 2
    stopped = stop(x)
    before = stopped._version
    with torch.no_grad():
        x.add_(1.0)
    return stopped._version > before


@exercise("05_loss_composition/asymmetric")
def check_asymmetric(exam: Exam) -> None:
    """``Quantile``: the pinball loss with gradients for input and target."""
    Quantile = exam.function()
    q = 0.8
    prediction, target = exam.randn(3, 4), exam.randn(3, 4)
    with torch.no_grad():
        target[0, 0] = prediction[0, 0]  # a residual of exactly zero
    r = (target - prediction).detach()
    loss = exam.run("forward runs", lambda: Quantile.apply(prediction, target, q))
    mirrored = "The two sides are exchanged: r is target minus input, and q weighs r > 0 (too little)."
    exam.close(
        "forward gives max(q r, (q - 1) r) for each element",
        loss,
        torch.maximum(q * r, (q - 1) * r),
        [
            Mistake("sides-exchanged", torch.maximum(-q * r, (1 - q) * r), mirrored),
            Mistake(
                "reduced", torch.maximum(q * r, (q - 1) * r).mean(), "Do not reduce: one loss per element."
            ),
            Mistake(
                "min-for-max",
                torch.minimum(q * r, (q - 1) * r),
                "That is the minimum of the two; take the maximum.",
            ),
        ],
    )
    upstream = exam.randn(3, 4, requires_grad=False)
    slope = torch.where(r > 0, q, torch.where(r < 0, q - 1, 0.0)).to(r.dtype)
    grad_input, grad_target = exam.gradients(
        "backward runs",
        lambda a, b: Quantile.apply(a, b, q),
        [prediction, target],
        upstream,
        [
            (
                "incorrect number of gradients",
                "wrong-count",
                "apply has three arguments: return three values, None for q.",
            )
        ],
    )
    exam.close(
        "the gradient of input is -slope times grad_output",
        grad_input,
        -slope * upstream,
        [
            Mistake(
                "wrong-sign",
                slope * upstream,
                "r is target minus input: the chain rule puts a minus on the input's side.",
            ),
            Mistake("forgot-upstream", -slope, "Multiply by grad_output."),
            Mistake(
                "slope-at-zero",
                -torch.where(r >= 0, q, q - 1).to(r.dtype) * upstream,
                "At r = 0 you took the slope of the upper side. The task agrees on 0 there.",
            ),
            Mistake(
                "slope-at-zero",
                -torch.where(r > 0, q, q - 1).to(r.dtype) * upstream,
                "At r = 0 you took the slope of the lower side. The task agrees on 0 there.",
            ),
            Mistake(
                "sides-exchanged",
                (torch.where(r < 0, -q, 0.0) + torch.where(r > 0, 1 - q, 0.0)) * -upstream,
                mirrored,
            ),
        ],
    )
    exam.close(
        "the gradient of target is slope times grad_output",
        grad_target,
        slope * upstream,
        [
            Mistake(
                "target-gradient-missing",
                None,
                "None for target drops a gradient silently: targets can come from a network too. Return the opposite of input's.",
            ),
            Mistake(
                "target-same-sign",
                -slope * upstream,
                "The target pulls the other way: the opposite of input's gradient.",
            ),
        ],
    )
    (only,) = exam.gradients(
        "it works when only input requires a gradient",
        lambda a: Quantile.apply(a, target.detach(), q),
        [prediction],
        upstream,
    )
    exam.close("with the same gradient", only, -slope * upstream)
    first = exam.run("another q runs", lambda: Quantile.apply(prediction, target, 0.25))
    Quantile.apply(prediction, target, 0.9)
    (gradient,) = torch.autograd.grad(first, prediction, upstream)
    exam.close(
        "each use keeps its own q",
        gradient,
        -torch.where(r > 0, 0.25, torch.where(r < 0, -0.75, 0.0)).to(r.dtype) * upstream,
        slug="q-is-shared",
        hint="A later call changed the q of an earlier one: it lives on the class or in a global. Keep it on ctx.",
    )


@exercise("05_loss_composition/mixer")
def check_mixer(exam: Exam) -> None:
    """``mixed_gradient``: the weighted gradient on a shared trunk, and the angle between the two."""
    mixed_gradient = exam.answer()
    trunk, bias = exam.randn(3, 2), exam.randn(2)
    data, goal = exam.randn(5, 3, requires_grad=False), exam.randn(5, 2, requires_grad=False)
    shared, weights = [trunk, bias], (1.5, -0.4)

    def losses() -> tuple[Tensor, Tensor]:
        features = torch.tanh(data @ trunk)
        return ((features + bias - goal) ** 2).mean(), (
            features.sum(1) ** 2
        ).mean()  # the second does not use bias

    def flat(loss: Tensor) -> Tensor:
        gradients = torch.autograd.grad(loss, shared, retain_graph=True, allow_unused=True)
        return torch.cat(
            [
                torch.zeros_like(p).reshape(-1) if g is None else g.reshape(-1)
                for p, g in zip(shared, gradients, strict=True)
            ]
        )

    first, second = map(flat, losses())
    expected = weights[0] * first + weights[1] * second
    pair = losses()
    got = exam.run(
        "it runs, also where one loss does not use a parameter",
        lambda: mixed_gradient(pair, weights, shared),
        [
            (
                "not have been used|NoneType",
                "crashes-on-unused",
                "The second loss does not use the last parameter. Ask with allow_unused=True, and put zeros where the answer is None.",
            ),
            (
                "second time",
                "frees-the-graph",
                "The two losses share a graph, and the first gradient freed it. Ask with retain_graph=True.",
            ),
            ("[Ss]izes of tensors|stack expects", "not-flattened", "The parameters differ in shape: flatten each gradient, then cat."),
        ],
    )  # fmt: skip
    exam.that(
        "it returns (gradient, cosine)",
        isinstance(got, tuple) and len(got) == 2 and isinstance(got[1], float),
        f"It returned {type(got).__name__}{' of ' + ', '.join(type(each).__name__ for each in got) if isinstance(got, tuple) else ''}.",
        "not-a-pair",
        "Return two things: the flat gradient, and the cosine as a Python number (.item()).",
    )
    unit = [each / each.norm() for each in (first, second)]
    exam.close(
        "the gradient is that of the weighted sum",
        got[0],
        expected,
        [
            Mistake(
                "unweighted",
                first + second,
                "That is the gradient of the plain sum: the weights are missing.",
            ),
            Mistake("averaged", expected / 2, "Half of it: a weighted sum, not a mean."),
            Mistake(
                "weights-exchanged", weights[1] * first + weights[0] * second, "The weights are exchanged."
            ),
            Mistake(
                "normalised",
                weights[0] * unit[0] + weights[1] * unit[1],
                "You scaled each gradient to length one first. The gradient of the weighted sum keeps their lengths.",
            ),
        ],
    )
    cosine = float(unit[0] @ unit[1])
    exam.that(
        "the cosine is that of the two unweighted gradients",
        math.isclose(got[1], cosine, rel_tol=1e-5, abs_tol=1e-9),
        f"yours {got[1]:.6g}, expected {cosine:.6g}.",
        _cosine_slug(got[1], cosine, first, second),
        "Dot product of the two unweighted gradients, divided by the product of their lengths.",
    )
    exam.close(
        "as a number for the record",
        torch.tensor(got[1], dtype=torch.float64),
        torch.tensor(cosine, dtype=torch.float64),
    )
    exam.that(
        "no .grad is filled",
        all(each.grad is None for each in shared),
        "After the call, .grad of a shared parameter is no longer None.",
        "fills-grad",
        "backward() adds into .grad, where the optimiser will find it. torch.autograd.grad returns gradients and leaves .grad alone.",
    )
    exam.run(
        "both losses can still be differentiated afterwards",
        lambda: torch.autograd.grad(pair[0] + pair[1], trunk),
        [
            (
                "second time",
                "frees-the-graph",
                "Your call freed the graph. Ask with retain_graph=True, for both losses.",
            )
        ],
    )
    exam.hold("both losses can still be differentiated afterwards")
    fresh = losses()
    silent = (fresh[0] * 0.0, fresh[1])
    got = exam.run("it runs when one gradient is zero", lambda: mixed_gradient(silent, weights, shared))
    exam.that(
        "a zero gradient gives a cosine of 0.0",
        got[1] == 0.0,
        f"It gave {got[1]}.",
        "nan-cosine",
        "A gradient of length zero has no direction, and 0/0 is NaN. Ask for the lengths first.",
    )


def _cosine_slug(got: float, cosine: float, first: Tensor, second: Tensor) -> str:
    if math.isclose(got, -cosine, rel_tol=1e-5):
        return "cosine-of-weighted"
    if math.isclose(got, float(first @ second), rel_tol=1e-5):
        return "dot-for-cosine"
    if math.isclose(got, math.degrees(math.acos(cosine)), rel_tol=1e-4) or math.isclose(
        got, math.acos(cosine), rel_tol=1e-4
    ):
        return "angle-for-cosine"
    return "wrong-cosine"
