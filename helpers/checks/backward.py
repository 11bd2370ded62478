"""Checks of ``exercises/03_backward_and_the_vjp.ipynb``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .applications import LargestTensor
from .exam import Exam, exercise
from .forward import NEVER_SAVED, notices_changes
from .verdict import Mistake


def returned_by_backward(
    exam: Exam, fact: str, function: type[torch.autograd.Function], inputs: Sequence[object], upstream: Tensor
) -> list[Tensor | None]:
    """What backward itself returns, before the engine sums a broadcast gradient or casts a dtype.

    The node that ``apply`` leaves behind is ctx, so backward can be called with it.
    """

    def action() -> list[Tensor | None]:
        with torch.no_grad():
            returned = function.backward(graph, upstream)
        return list(returned) if isinstance(returned, tuple) else [returned]

    graph = function.apply(*inputs).grad_fn
    return exam.run(fact, action)


def odd_upstreams(
    exam: Exam, fn: Callable[[Tensor], Tensor], x: Tensor, rule: Callable[[Tensor], Tensor]
) -> None:
    """Upstream gradients that are expanded or transposed are numbers like any others."""
    shape = fn(x).shape
    for name, upstream in (
        ("an expanded", torch.tensor(0.7, dtype=x.dtype).expand(shape)),
        ("a transposed", exam.randn(*shape[::-1], requires_grad=False).mT),
    ):
        (gradient,) = exam.gradients(
            f"{name} upstream gradient runs",
            fn,
            [x],
            upstream,
            [
                (
                    "view size is not compatible|single memory location",
                    "assumes-contiguous",
                    "grad_output need not be contiguous: after .sum() it is one number seen many times. Use reshape, not view, and write into nothing.",
                )
            ],
        )
        exam.close(
            f"{name} upstream gradient gives the same rule",
            gradient,
            rule(upstream),
            slug="assumes-contiguous",
            hint="grad_output need not be contiguous: read it with operators, not through its memory.",
        )


@exercise("03_backward_and_the_vjp/exp")
def check_exp(exam: Exam) -> None:
    """``Exp``: its own derivative, of every order."""
    Exp = exam.function()
    x = exam.randn(2, 3)
    value = x.detach().exp()
    y = exam.run("forward runs", lambda: Exp.apply(x))
    exam.close("forward gives exp(x)", y, value)
    upstream = exam.randn(2, 3, requires_grad=False)
    (first,) = exam.gradients("backward runs", Exp.apply, [x], upstream, [NEVER_SAVED], create_graph=True)
    exam.close(
        "backward gives y times grad_output",
        first,
        upstream * value,
        [
            Mistake("forgot-upstream", value, "That is the local derivative alone. Multiply by grad_output."),
            Mistake(
                "times-x",
                upstream * x.detach(),
                "You multiplied by x, the input. The derivative of exp is exp(x), the output.",
            ),
            Mistake(
                "power-rule",
                upstream * x.detach() * value,
                "The power rule is for x to a power; here x is the exponent, and exp(x) is its own derivative.",
            ),
        ],
    )
    constant = (
        "The derivative depends on x, but what backward read was a constant: an output kept as ctx.y, or something detached. "
        "ctx.save_for_backward(output) gives it back with its history."
    )
    exam.that(
        "the gradient has a graph of its own",
        first.requires_grad,
        "With create_graph=True the gradient still does not require a gradient.",
        "constant-output",
        constant,
    )
    second = exam.run(
        "a second backward runs",
        lambda: torch.autograd.grad(first, x, torch.ones_like(first), create_graph=True, allow_unused=True)[
            0
        ],
        [("once_differentiable|does not require", "constant-output", constant)],
    )
    exam.close(
        "the second derivative is y times grad_output",
        second,
        upstream * value,
        [Mistake("constant-output", None, constant), Mistake("constant-output", 0 * value, constant)],
        hint=constant,
    )
    (third,) = torch.autograd.grad(second.sum(), x, allow_unused=True)
    exam.close(
        "the third derivative is y times grad_output",
        third,
        upstream * value,
        [Mistake("constant-output", None, constant)],
        hint=constant,
    )
    odd_upstreams(exam, Exp.apply, x, lambda v: v * value)

    def leaks() -> list[str]:
        return [name for name, each in vars(Exp.apply(x).grad_fn).items() if isinstance(each, Tensor)]

    exam.that(
        "no tensor is kept as an attribute of ctx",
        not exam.run("its ctx can be looked at", leaks),
        "A tensor is an attribute of ctx.",
        "constant-output",
        constant,
    )


@exercise("03_backward_and_the_vjp/matmul_bias")
def check_matmul_bias(exam: Exam) -> None:
    """``MatMulBias``: three gradients, three shapes."""
    MatMulBias = exam.function()
    x, weight, bias = exam.randn(4, 3), exam.randn(2, 3), exam.randn(2)
    X, W, b = (each.detach() for each in (x, weight, bias))
    shapes = (
        "shapes cannot be multiplied|invalid gradient|must match the size|size mismatch",
        "shapes-do-not-fit",
        "Each gradient has the shape of its input: x (n, i), weight (o, i), bias (o,), grad_output (n, o). Only one order of factors fits.",
    )
    y = exam.run("forward runs", lambda: MatMulBias.apply(x, weight, bias), [shapes])
    exam.close(
        "forward gives x Wᵀ + b", y, X @ W.T + b, [Mistake("bias-forgotten", X @ W.T, "The bias is missing.")]
    )
    upstream = exam.randn(4, 2, requires_grad=False)
    count = (
        "incorrect number of gradients",
        "wrong-count",
        "Three arguments, three gradients, in the order of the arguments.",
    )
    grads = exam.gradients(
        "backward runs", MatMulBias.apply, [x, weight, bias], upstream, [shapes, count, NEVER_SAVED]
    )
    exam.close(
        "the gradient of x is grad_output W",
        grads[0],
        upstream @ W,
        [
            Mistake(
                "ignores-upstream",
                torch.ones_like(upstream) @ W,
                "grad_output is not all ones: multiply by it.",
            )
        ],
    )
    exam.close(
        "the gradient of weight is grad_outputᵀ x",
        grads[1],
        upstream.T @ X,
        [
            Mistake(
                "mean-over-rows",
                upstream.T @ X / 4,
                "Averaging over the batch is the loss's business, not the layer's: sum.",
            ),
            Mistake(
                "ignores-upstream",
                torch.ones_like(upstream).T @ X,
                "grad_output is not all ones: multiply by it.",
            ),
            Mistake("weight-gradient-missing", None, "None for weight: a layer that never learns."),
        ],
    )
    exam.close(
        "the gradient of bias is grad_output summed over the rows",
        grads[2],
        upstream.sum(0),
        [
            Mistake(
                "mean-over-rows",
                upstream.mean(0),
                "Averaging over the batch is the loss's business, not the layer's: sum.",
            ),
            Mistake(
                "ones-for-bias",
                torch.full((2,), 4.0, dtype=X.dtype),
                "The bias's local derivative is 1, and it still meets grad_output.",
            ),
            Mistake("bias-gradient-missing", None, "None for bias drops its gradient silently."),
        ],
    )
    raw = returned_by_backward(exam, "backward can be looked at", MatMulBias, [x, weight, bias], upstream)
    exam.that(
        "backward itself sums the gradient of bias",
        raw[2] is not None and raw[2].shape == bias.shape,
        f"Backward returns shape {tuple(raw[2].shape) if raw[2] is not None else None} for the bias; the engine had to sum it.",
        "engine-sums",
        "The engine reduces a broadcast gradient silently, and only for broadcasting. torch.func and other callers do not: sum over the rows yourself.",
    )
    square = [exam.randn(3, 3), exam.randn(3, 3), exam.randn(3)]
    upstream = exam.randn(3, 3, requires_grad=False)
    grads = exam.gradients("backward runs on square matrices", MatMulBias.apply, square, upstream)
    X, W, _ = (each.detach() for each in square)
    forgot = (
        "With square matrices every order of factors fits, and only one is right: write the transposes out."
    )
    exam.close(
        "square matrices: the gradient of x",
        grads[0],
        upstream @ W,
        [Mistake("square-only", upstream @ W.T, forgot)],
        hint=forgot,
    )
    exam.close(
        "square matrices: the gradient of weight",
        grads[1],
        upstream.T @ X,
        [Mistake("square-only", X.T @ upstream, forgot)],
        hint=forgot,
    )
    (only,) = exam.gradients(
        "it works when only x requires a gradient",
        lambda a: MatMulBias.apply(a, weight.detach(), bias.detach()),
        [x],
        torch.ones(4, 2, dtype=torch.float64),
    )
    exam.close("with the same rule", only, torch.ones(4, 2, dtype=torch.float64) @ weight.detach())


@exercise("03_backward_and_the_vjp/softmax")
def check_softmax(exam: Exam) -> None:
    """``Softmax``: a VJP without the Jacobian."""
    Softmax = exam.function()
    x = exam.randn(4, 3)
    z = x.detach()
    right = z.softmax(1)
    y = exam.run(
        "forward runs",
        lambda: Softmax.apply(x),
        [
            (
                "must match the size",
                "forgot-keepdim",
                "A sum along dim 1 loses that dimension: keepdim=True keeps it.",
            )
        ],
    )
    exam.close(
        "forward gives the softmax of each row",
        y,
        right,
        [
            Mistake("wrong-dimension", z.softmax(0), "Each row is to sum to one: dimension 1."),
            Mistake("one-sum-for-all", z.exp() / z.exp().sum(), "Each row has a sum of its own."),
        ],
    )
    huge = torch.tensor([[1000.0, 0.0], [-1000.0, -1000.0]], dtype=torch.float64)
    got = exam.run("forward runs on huge numbers", lambda: Softmax.apply(huge))
    exam.close(
        "huge numbers do not overflow",
        got,
        huge.softmax(1),
        slug="overflows",
        hint="Subtract the largest entry of each row before exp: the softmax does not change.",
    )
    upstream = exam.randn(4, 3, requires_grad=False)
    (gradient,) = exam.gradients(
        "backward runs",
        Softmax.apply,
        [x],
        upstream,
        [
            NEVER_SAVED,
            ("must match the size", "forgot-keepdim", "The inner product loses a dimension: keepdim=True."),
        ],
    )
    inner = (upstream * right).sum(1, keepdim=True)
    exam.close(
        "backward gives y (v - ⟨v, y⟩)",
        gradient,
        right * (upstream - inner),
        [
            Mistake(
                "diagonal-only",
                upstream * right * (1 - right),
                "That is the diagonal of the Jacobian alone. Every output depends on every input of its row.",
            ),
            Mistake("diagonal-only", upstream * right, "That is diag(y) alone; the part y yᵀ is missing."),
            Mistake("ignores-upstream", right * (1 - right.sum(1, keepdim=True)), "grad_output is missing."),
            Mistake("plus-for-minus", right * (upstream + inner), "The Jacobian is diag(y) minus y yᵀ."),
            Mistake(
                "forgot-y-inside",
                right * (upstream - upstream.sum(1, keepdim=True)),
                "The inner product is of v with y, not the sum of v.",
            ),
            Mistake("forgot-y-outside", upstream - inner, "The factor y in front is missing."),
            Mistake(
                "sums-over-everything",
                right * (upstream - (upstream * right).sum()),
                "Each row has an inner product of its own: sum along dimension 1.",
            ),
        ],
        hint="Write v diag(y) - v y yᵀ for one row, and look for the number ⟨v, y⟩.",
    )
    odd_upstreams(exam, Softmax.apply, x, lambda v: right * (v - (v * right).sum(1, keepdim=True)))
    wide = torch.randn(2, 300, requires_grad=True)
    out = Softmax.apply(wide)
    with LargestTensor() as seen:
        exam.run("backward runs on 300 columns", lambda: torch.autograd.grad(out.square().sum(), wide))
    exam.that(
        "no Jacobian is built",
        seen.largest < 300 * 300,
        f"A tensor of {seen.largest} numbers was made for rows of 300: that is a Jacobian.",
        "builds-the-jacobian",
        "v times diag(y) is v * y, and v times y yᵀ is ⟨v, y⟩ y: n numbers, not n².",
    )
    weight = exam.randn(4, 3, requires_grad=False)

    def second(fn: Callable[[Tensor], Tensor]) -> Tensor | None:
        (first,) = torch.autograd.grad((fn(x) * weight).sum(), x, create_graph=True)
        return torch.autograd.grad((first**2).sum(), x, allow_unused=True)[0] if first.requires_grad else None

    nothing_on_ctx(exam, Softmax.apply, x)
    cut = "What backward reads must be an input or an output that was saved with save_for_backward: anything else is a constant to a second derivative."
    got = exam.run("a second derivative runs", lambda: second(Softmax.apply))
    exam.close(
        "the second derivative is right",
        got,
        second(lambda a: a.softmax(1)),
        [Mistake("second-derivative", None, cut)],
        slug="second-derivative",
        hint=cut,
    )


def nothing_on_ctx(exam: Exam, fn: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """A tensor kept as an attribute of ctx is not freed by backward, and an output there is a cycle."""

    def kept() -> list[str]:
        return [name for name, each in vars(fn(x).grad_fn).items() if isinstance(each, Tensor)]

    exam.that(
        "no tensor is kept as an attribute of ctx",
        not exam.run("its ctx can be looked at", kept),
        "A tensor is an attribute of ctx.",
        "tensor-on-ctx",
        "An output kept as ctx.y makes a cycle, and is not freed by backward. ctx.save_for_backward(output) is free of both.",
    )


@exercise("03_backward_and_the_vjp/vmap")
def check_vmap(exam: Exam) -> None:
    """``Square``: under torch.func as well."""
    Square = exam.function()
    x = exam.randn(5)
    z = x.detach()
    y = exam.run("forward runs", lambda: Square.apply(x))
    exam.close("forward gives x²", y, z * z)
    upstream = exam.randn(5, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", Square.apply, [x], upstream, [NEVER_SAVED])
    exam.close(
        "backward gives 2x times grad_output",
        gradient,
        2 * z * upstream,
        [
            Mistake("forgot-upstream", 2 * z, "Multiply by grad_output."),
            Mistake("forgot-the-two", z * upstream, "The power comes down as a factor: 2x."),
        ],
    )
    combined = (
        "setup_context",
        "combined-style",
        "torch.func needs forward without ctx, and a static method setup_context(ctx, inputs, output) beside it.",
    )
    no_rule = (
        "vmap staticmethod|generate_vmap_rule",
        "no-vmap-rule",
        "vmap must be told how to map your Function: generate_vmap_rule = True lets PyTorch derive it.",
    )
    number = (
        r"\.item\(\)|data-dependent|Boolean value",
        "asks-for-a-number",
        "Under vmap a tensor stands for a whole batch, and has no single number to ask for.",
    )
    got = exam.run(
        "torch.func.grad runs",
        lambda: torch.func.grad(lambda t: Square.apply(t).sum())(z),
        [combined, number],
    )
    exam.close("torch.func.grad gives 2x", got, 2 * z)
    got = exam.run(
        "torch.func.vmap runs", lambda: torch.func.vmap(Square.apply)(z), [no_rule, combined, number]
    )
    exam.close("vmap gives x² for each", got, z * z)
    got = exam.run(
        "vmap of grad runs",
        lambda: torch.func.vmap(torch.func.grad(Square.apply))(z),
        [no_rule, combined, number],
    )
    exam.close(
        "vmap of grad gives 2x for each",
        got,
        2 * z,
        slug="wrong-under-vmap",
        hint="Each example has a gradient of its own; nothing may mix them.",
    )
    got = exam.run(
        "grad of grad runs",
        lambda: torch.func.vmap(torch.func.grad(torch.func.grad(Square.apply)))(z),
        [no_rule],
    )
    exam.close(
        "the second derivative is 2",
        got,
        torch.full_like(z, 2.0),
        slug="second-derivative",
        hint="Save x, the input, and nothing computed from it.",
    )
    notices_changes(exam, Square.apply)


@exercise("03_backward_and_the_vjp/layer_norm")
def check_layer_norm(exam: Exam) -> None:
    """``LayerNorm``: mean and variance depend on x too."""
    LayerNorm = exam.function()
    x, weight, bias = exam.randn(4, 3), exam.randn(3), exam.randn(3)
    eps = 0.1  # large enough to show where it stands
    X, W, b = (each.detach() for each in (x, weight, bias))
    centred = X - X.mean(1, keepdim=True)
    variance = (centred**2).mean(1, keepdim=True)
    scale = (variance + eps).rsqrt()
    normed = centred * scale
    y = exam.run(
        "forward runs",
        lambda: LayerNorm.apply(x, weight, bias, eps),
        [
            (
                "must match the size",
                "forgot-keepdim",
                "A mean along dim 1 loses that dimension: keepdim=True keeps it.",
            )
        ],
    )
    exam.close(
        "forward gives w x̂ + b",
        y,
        normed * W + b,
        [
            Mistake(
                "unbiased-variance",
                centred * (X.var(1, keepdim=True) + eps).rsqrt() * W + b,
                "Divide by d, not by d - 1: var(unbiased=False), or the mean of the squares.",
            ),
            Mistake(
                "eps-outside",
                centred / (variance.sqrt() + eps) * W + b,
                "eps stands under the root: √(σ² + ε).",
            ),
            Mistake(
                "wrong-dimension",
                (X - X.mean(0)) * (((X - X.mean(0)) ** 2).mean(0) + eps).rsqrt() * W + b,
                "Mean and variance are along each row, dimension 1.",
            ),
        ],
    )
    upstream = exam.randn(4, 3, requires_grad=False)
    count = ("incorrect number of gradients", "wrong-count", "Four arguments, four values: None for eps.")
    shapes = (
        "invalid gradient",
        "shapes-do-not-fit",
        "The gradients of weight and bias have shape (d,): sum over the rows.",
    )
    grads = exam.gradients(
        "backward runs",
        lambda *each: LayerNorm.apply(*each, eps),
        [x, weight, bias],
        upstream,
        [count, shapes, NEVER_SAVED],
    )
    g = upstream * W
    mean_g, mean_gn = g.mean(1, keepdim=True), (g * normed).mean(1, keepdim=True)
    plain = upstream
    exam.close(
        "the gradient of x has its two extra terms",
        grads[0],
        scale * (g - mean_g - normed * mean_gn),
        [
            Mistake(
                "constant-statistics",
                scale * g,
                "You treated mean and variance as constants. They depend on x: subtract the two means.",
            ),
            Mistake(
                "constant-variance",
                scale * (g - mean_g),
                "The variance depends on x too: the term x̂ mean(g x̂) is missing.",
            ),
            Mistake(
                "constant-mean",
                scale * (g - normed * mean_gn),
                "The mean depends on x too: the term mean(g) is missing.",
            ),
            Mistake(
                "forgot-weight",
                scale
                * (plain - plain.mean(1, keepdim=True) - normed * (plain * normed).mean(1, keepdim=True)),
                "g is grad_output times weight: the weight is missing.",
            ),
            Mistake(
                "forgot-scale", g - mean_g - normed * mean_gn, "The factor 1/√(σ² + ε) in front is missing."
            ),
        ],
        hint="Go through the formula term by term: g, mean(g), x̂ mean(g x̂), and the scale in front.",
    )
    exam.close(
        "the gradient of weight",
        grads[1],
        (upstream * normed).sum(0),
        [
            Mistake("uses-x-for-normed", (upstream * X).sum(0), "weight multiplies x̂, not x."),
            Mistake("weight-gradient-missing", None, "None for weight drops its gradient silently."),
            Mistake(
                "mean-over-rows",
                (upstream * normed).mean(0),
                "Sum over the rows: averaging is the loss's business.",
            ),
        ],
    )
    exam.close(
        "the gradient of bias",
        grads[2],
        upstream.sum(0),
        [Mistake("mean-over-rows", upstream.mean(0), "Sum over the rows: averaging is the loss's business.")],
    )
    raw = returned_by_backward(exam, "backward can be looked at", LayerNorm, [x, weight, bias, eps], upstream)
    exam.that(
        "backward itself sums over the rows",
        all(each is not None and each.shape == (3,) for each in raw[1:3]),
        f"Backward returns shapes {[tuple(each.shape) if each is not None else None for each in raw[1:3]]} for weight and bias.",
        "engine-sums",
        "The engine reduces a broadcast gradient silently, but torch.func and other callers do not: sum over the rows yourself.",
    )
    probe = exam.randn(4, 3, requires_grad=False)

    def second(fn: Callable[..., Tensor]) -> Tensor | None:
        (first,) = torch.autograd.grad((fn(x, weight, bias) * probe).sum(), x, create_graph=True)
        return torch.autograd.grad((first**2).sum(), x, allow_unused=True)[0] if first.requires_grad else None

    cut = "x̂ and the scale are neither inputs nor outputs: saved, they are constants to a second derivative. Save x and weight, and compute them again."
    got = exam.run("a second derivative runs", lambda: second(lambda *each: LayerNorm.apply(*each, eps)))
    exam.close(
        "the second derivative is right",
        got,
        second(lambda a, w, c: torch.nn.functional.layer_norm(a, (3,), w, c, eps)),
        [Mistake("saved-intermediate", None, cut)],
        slug="saved-intermediate",
        hint=cut,
    )
