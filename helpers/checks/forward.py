"""Checks of ``exercises/02_forward_and_ctx.ipynb``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .exam import Exam, exercise
from .rule import source_of
from .verdict import Mistake

ONE = torch.tensor(1.0, dtype=torch.float64)


def notices_changes(exam: Exam, fn: Callable[[Tensor], Tensor], slug: str = "tensor-on-ctx") -> None:
    """The input is changed between forward and backward: autograd must raise, not go on with other numbers."""
    leaf = exam.randn(2, 3)

    def changed() -> None:
        z = leaf * 1.0
        y = fn(z)
        with torch.no_grad():
            z.mul_(2.0)
        y.sum().backward()

    exam.raises(
        "it notices that its input was changed in place",
        changed,
        RuntimeError,
        "The input was doubled between forward and backward, and backward went on with the new numbers.",
        slug,
        "A tensor kept as ctx.x has no version check and is not freed with the graph. ctx.save_for_backward(x) has both.",
    )


NEVER_SAVED = (
    "has no attribute|not enough values to unpack",
    "never-saved",
    "Backward asks for something that forward did not put on ctx. Save it with ctx.save_for_backward.",
)
WRONG_COUNT = (
    "incorrect number of gradients",
    "wrong-count",
    "Backward returns one value for every argument of apply: None for the number.",
)


@exercise("02_forward_and_ctx/swish")
def check_swish(exam: Exam) -> None:
    """``Swish``: the right note, put on the pot in the right way."""
    Swish = exam.function()
    x = 2 * exam.randn(2, 3, requires_grad=False)
    x.requires_grad_()
    z = x.detach()
    sigmoid = z.sigmoid()
    y = exam.run("forward runs", lambda: Swish.apply(x))
    exam.close(
        "forward gives x σ(x)",
        y,
        z * sigmoid,
        [Mistake("sigmoid-alone", sigmoid, "That is σ(x) alone; the factor x is missing.")],
    )
    slope = sigmoid + z * sigmoid * (1 - sigmoid)
    upstream = exam.randn(2, 3, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", Swish.apply, [x], upstream, [NEVER_SAVED])
    half = "y is a product, x times σ(x), so its derivative has two terms: σ(x) + x σ(x)(1 - σ(x))."
    exam.close(
        "backward gives the slope times grad_output",
        gradient,
        upstream * slope,
        [
            Mistake(
                "forgot-upstream",
                slope,
                "Multiply by grad_output: the slope alone is right under .sum() only.",
            ),
            Mistake("half-the-product-rule", upstream * sigmoid, half),
            Mistake("half-the-product-rule", upstream * z * sigmoid * (1 - sigmoid), half),
            Mistake("derivative-of-sigmoid", upstream * sigmoid * (1 - sigmoid), half),
            Mistake(
                "minus-for-plus",
                upstream * (sigmoid - z * sigmoid * (1 - sigmoid)),
                "The two terms of the product rule are added.",
            ),
        ],
        hint=half,
    )
    notices_changes(exam, Swish.apply)
    weight = exam.randn(2, 3, requires_grad=False)

    def second(fn: Callable[[Tensor], Tensor]) -> Tensor | None:
        (first,) = torch.autograd.grad((fn(x) * weight).sum(), x, create_graph=True)
        if not first.requires_grad:
            return None
        return torch.autograd.grad(first.sum(), x, allow_unused=True)[0]

    cut = "A saved σ(x) is neither input nor output, so backward takes it for a constant. Save x, and compute σ(x) again."
    got = exam.run("a second derivative runs", lambda: second(Swish.apply))
    exam.close(
        "the second derivative is right",
        got,
        second(lambda t: t * t.sigmoid()),
        [Mistake("saved-intermediate", None, cut)],
        hint=cut,
        slug="saved-intermediate",
    )


@exercise("02_forward_and_ctx/inplace")
def check_inplace(exam: Exam) -> None:
    """``ScaleInPlace``: it changes its input, and says so."""
    ScaleInPlace = exam.function()
    leaf = exam.randn(2, 3)
    factor = -1.5

    def scaled() -> tuple[Tensor, Tensor]:
        x = leaf * 1.0
        return x, ScaleInPlace.apply(x, factor)

    x, y = exam.run("it runs", scaled)
    exam.close(
        "it returns x times factor",
        y,
        factor * leaf.detach(),
        [
            Mistake(
                "unchanged",
                leaf.detach(),
                "The numbers have not changed. x.mul_(factor) changes them in place.",
            )
        ],
    )
    exam.that(
        "x itself has changed",
        torch.equal(x.detach(), factor * leaf.detach()),
        "x still has its old numbers.",
        "not-in-place",
        "x * factor makes a new tensor. x.mul_(factor) works in x's own memory.",
    )
    exam.that(
        "no second copy was made",
        y.data_ptr() == x.data_ptr(),
        "The result has memory of its own.",
        "returns-a-copy",
        "Return x itself after changing it, without clone.",
    )
    upstream = exam.randn(2, 3, requires_grad=False)
    (gradient,) = exam.gradients(
        "backward runs",
        lambda a: ScaleInPlace.apply(a * 1.0, factor),
        [leaf],
        upstream,
        [WRONG_COUNT, NEVER_SAVED],
    )
    exam.close(
        "backward gives factor times grad_output",
        gradient,
        factor * upstream,
        [
            Mistake("forgot-upstream", torch.full_like(upstream, factor), "Multiply by grad_output."),
            Mistake(
                "forgot-the-factor", upstream, "The factor is missing: keep it on ctx and multiply by it."
            ),
            Mistake("divides", upstream / factor, "The derivative of factor · x is factor, not its inverse."),
        ],
    )

    def through_x() -> Tensor:
        x = leaf * 1.0
        ScaleInPlace.apply(x, factor)
        return torch.autograd.grad(x, leaf, upstream)[0]

    exam.close(
        "x itself, used afterwards, knows of the change",
        exam.run("the changed x can be differentiated", through_x),
        factor * upstream,
        slug="not-marked-dirty",
        hint="Autograd does not know that x was changed, and gives x's old gradient silently. Declare it: ctx.mark_dirty(x).",
    )

    def needs_old_numbers() -> None:
        x = leaf * 1.0
        y = x.sin()
        ScaleInPlace.apply(x, factor)
        y.sum().backward()

    exam.raises(
        "whoever needed the old numbers gets an error",
        needs_old_numbers,
        RuntimeError,
        "sin(x) was differentiated with the new numbers.",
        "not-marked-dirty",
        "Do not go round autograd with .data: change x itself, and declare it with ctx.mark_dirty(x).",
    )


@exercise("02_forward_and_ctx/outputs")
def check_outputs(exam: Exam) -> None:
    """``MaxAndIndex``: two outputs, one of them a whole number."""
    MaxAndIndex = exam.function()
    x = exam.randn(4, 3)
    z = x.detach()
    got = exam.run("forward runs", lambda: MaxAndIndex.apply(x))
    exam.that(
        "it returns two tensors",
        isinstance(got, tuple) and len(got) == 2 and all(isinstance(each, Tensor) for each in got),
        f"It returned {type(got).__name__}{f' of {len(got)}' if isinstance(got, tuple) else ''}.",
        "not-two-outputs",
        "Return a plain tuple of two tensors: values, index.",
    )
    values, index = z.max(1)
    columns = "Dimension 1 runs along a row: x.max(1) gives one number for each row."
    exam.close(
        "the first output is the largest entry of each row",
        got[0],
        values,
        [
            Mistake("wrong-dimension", z.max(0).values, columns),
            Mistake("smallest", z.min(1).values, "Those are the smallest entries."),
            Mistake("outputs-exchanged", index, "The two outputs are exchanged: values first, index second."),
        ],
    )
    exam.close("the second output is its place", got[1], index)
    upstream = exam.randn(4, requires_grad=False)
    one_argument = (
        r"backward\(\) takes 2 positional arguments but 3",
        "one-gradient-argument",
        "Forward has two outputs, so backward gets two gradients: backward(ctx, grad_values, grad_index).",
    )
    (gradient,) = exam.gradients(
        "backward runs", lambda a: MaxAndIndex.apply(a)[0], [x], upstream, [one_argument, NEVER_SAVED]
    )
    place = torch.nn.functional.one_hot(index, 3).to(z.dtype)
    exam.close(
        "the gradient of a row goes to the entry that won",
        gradient,
        place * upstream[:, None],
        [
            Mistake("forgot-upstream", place, "Put grad_values at the winner's place, not 1."),
            Mistake(
                "everywhere",
                upstream[:, None].expand(4, 3),
                "Every entry of the row got the gradient. Only the winner decides the value.",
            ),
            Mistake(
                "shared-out",
                (upstream[:, None] / 3).expand(4, 3),
                "The gradient was shared out. Only the winner decides the value.",
            ),
            Mistake(
                "times-the-value",
                place * (upstream * values)[:, None],
                "The derivative of the winner is 1, not its value.",
            ),
        ],
        hint="Start from zeros of x's shape and scatter grad_values to the saved places.",
    )
    tie = torch.tensor([[1.0, 5.0, 5.0], [2.0, 2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    winner = tie.detach().max(1).indices
    (gradient,) = exam.gradients(
        "a tie runs", lambda a: MaxAndIndex.apply(a)[0], [tie], torch.ones(2, dtype=torch.float64)
    )
    exam.close(
        "in a tie the entry that index names gets it all",
        gradient,
        torch.nn.functional.one_hot(winner, 3).double(),
        slug="compares-values",
        hint="x == values marks both entries of a tie. The index tells which one won.",
    )
    exam.that(
        "the index requires no gradient",
        not got[1].requires_grad,
        "The index requires a gradient.",
        "index-differentiable",
        "A whole number cannot carry a gradient: ctx.mark_non_differentiable(index).",
    )


def kept_bytes(fn: Callable[[], Tensor]) -> int:
    """Bytes that a Function keeps for backward, each storage once, tensors on ctx included."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = fn()
    for value in vars(output.grad_fn).values():
        if isinstance(value, Tensor):
            note(value)
    return sum(kept.values())


@exercise("02_forward_and_ctx/bytes")
def check_bytes(exam: Exam) -> None:
    """``LeanRelu``: one byte for each entry."""
    LeanRelu = exam.function()
    x = exam.randn(3, 4, requires_grad=False)
    x[0, 0] = 0.0
    x.requires_grad_()
    z = x.detach()
    y = exam.run("forward runs", lambda: LeanRelu.apply(x))
    exam.close(
        "forward is relu",
        y,
        z.relu(),
        [
            Mistake("absolute", z.abs(), "That is the absolute value."),
            Mistake("mask-alone", (z > 0).double(), "That is the mask; relu is x where it is positive."),
        ],
        hint="Zero where x is negative, x elsewhere.",
    )
    upstream = exam.randn(3, 4, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", LeanRelu.apply, [x], upstream, [NEVER_SAVED])
    exam.close(
        "backward passes grad_output where x was positive",
        gradient,
        upstream * (z > 0),
        [
            Mistake("forgot-upstream", (z > 0).double(), "Multiply by grad_output."),
            Mistake(
                "one-at-zero", upstream * (z >= 0), "At 0 the gradient is agreed to be 0: x > 0, not x >= 0."
            ),
            Mistake("times-x", upstream * z.relu(), "The slope is 1 where x is positive, not x."),
        ],
    )
    big = torch.randn(64, 32)
    big.requires_grad_()
    kept = exam.run("its memory can be measured", lambda: kept_bytes(lambda: LeanRelu.apply(big)))
    exam.that(
        "it keeps one byte for each entry",
        kept <= big.numel(),
        f"{kept} bytes are kept for {big.numel()} entries, {kept / big.numel():g} each.",
        "keeps-too-much",
        "x and y are four bytes a number, and so is a mask of floats. x > 0 is a boolean tensor: one byte.",
    )

    def on_ctx() -> list[str]:
        node = LeanRelu.apply(big).grad_fn
        return [name for name, value in vars(node).items() if isinstance(value, Tensor)]

    exam.that(
        "the mask is freed with the graph",
        not exam.run("its ctx can be looked at", on_ctx),
        "The mask is kept as an attribute of ctx, which backward does not free.",
        "tensor-on-ctx",
        "ctx.save_for_backward takes a mask too, and frees it after backward.",
    )


@exercise("02_forward_and_ctx/materialize")
def check_materialize(exam: Exam) -> None:
    """``SumAndProduct``: no zeros for an output that was not used."""
    SumAndProduct = exam.function()
    a, b = exam.randn(2, 3), exam.randn(2, 3)
    got = exam.run("forward runs", lambda: SumAndProduct.apply(a, b))
    exam.that(
        "it returns two tensors",
        isinstance(got, tuple) and len(got) == 2,
        f"It returned a {type(got).__name__}.",
        "not-two-outputs",
        "Return a plain tuple: a + b, a * b.",
    )
    exam.close(
        "the first output is the sum",
        got[0],
        (a + b).detach(),
        [Mistake("outputs-exchanged", (a * b).detach(), "The outputs are exchanged: the sum first.")],
    )
    exam.close("the second output is the product", got[1], (a * b).detach())
    g, h = (exam.randn(2, 3, requires_grad=False) for _ in range(2))
    none_arrived = (
        "NoneType",
        "forgot-none",
        "With set_materialize_grads(False) the gradient of an unused output arrives as None. Ask before you multiply.",
    )

    def grads(fact: str, used: Callable[[tuple], Tensor]) -> tuple[Tensor | None, ...]:
        return exam.gradients(
            fact, lambda p, q: used(SumAndProduct.apply(p, q)), [a, b], ONE, [none_arrived, NEVER_SAVED]
        )

    A, B = a.detach(), b.detach()
    both = grads("backward runs when both are used", lambda out: (out[0] * g).sum() + (out[1] * h).sum())
    exam.close(
        "both used: a gets grad_sum + grad_product · b",
        both[0],
        g + h * B,
        [
            Mistake("factors-exchanged", g + h * A, "d(ab)/da is b: a's gradient holds the other factor."),
            Mistake("sum-forgotten", h * B, "The gradient of the sum is missing."),
            Mistake("product-forgotten", g, "The gradient of the product is missing."),
        ],
    )
    exam.close("both used: b gets grad_sum + grad_product · a", both[1], g + h * A)
    only_sum = grads("backward runs when only the sum is used", lambda out: (out[0] * g).sum())
    nothing = "One None was taken for both: a gradient did arrive for the other output."
    exam.close(
        "only the sum used: a gets grad_sum",
        only_sum[0],
        g,
        [Mistake("gives-up", None, nothing), Mistake("gives-up", torch.zeros_like(g), nothing)],
    )
    exam.close("only the sum used: b gets grad_sum", only_sum[1], g)
    only_product = grads("backward runs when only the product is used", lambda out: (out[1] * h).sum())
    exam.close(
        "only the product used: a gets grad_product · b",
        only_product[0],
        h * B,
        [Mistake("gives-up", None, nothing), Mistake("gives-up", torch.zeros_like(g), nothing)],
    )
    exam.close("only the product used: b gets grad_product · a", only_product[1], h * A)
    exam.that(
        "no zeros are filled in",
        _asks_for_none(SumAndProduct),
        "Autograd still makes tensors of zeros for unused outputs.",
        "materializes",
        "Call ctx.set_materialize_grads(False) where the context is set up.",
    )


def _asks_for_none(function: type) -> bool:
    """Does the Function call ``set_materialize_grads(False)``? Unknown source is believed."""
    tree: Any = source_of(function)
    if tree is None:
        return True
    return any(
        isinstance(node, ast.Call) and ast.unparse(node).endswith("set_materialize_grads(False)")
        for node in ast.walk(tree)
    )
