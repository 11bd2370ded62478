"""Checks of ``exercises/07_applications.ipynb``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.special
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .exam import Exam, exercise
from .verdict import Mistake


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operator makes."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, Tensor):
                self.largest = max(self.largest, each.numel())
        return result


def _refuses_or_is_right(
    exam: Exam, fn: Callable[[Tensor], Tensor], x: Tensor, right: Tensor, once: str
) -> None:
    """A second derivative of ``fn(x)²`` is right, or refused with an error; never silently wrong.

    The square matters: it makes the upstream gradient depend on ``x``, and only then does a backward that leaves
    the graph give a second derivative that looks like one.
    """
    fact = "a second derivative is right or refused"
    leaf = x.detach().clone().requires_grad_()
    try:
        (first,) = torch.autograd.grad((fn(leaf) ** 2).sum(), leaf, create_graph=True)
        first.sum().backward()  # autograd.grad would walk round a refusal that is not on the way to the leaf
    except RuntimeError:
        exam.hold(fact)
        return
    second = leaf.grad
    if second is None or not torch.allclose(second, right, rtol=1e-5, atol=1e-8):
        exam.fail(
            fact,
            "It is neither: a wrong number, without a word.",
            second,
            right,
            "silent-second-derivative",
            once,
        )
    exam.hold(fact)


@exercise("07_applications/bessel")
def check_bessel(exam: Exam) -> None:
    """``BesselJ0``: a SciPy function inside the graph."""
    BesselJ0 = exam.function()
    x = 3 * exam.randn(2, 3, requires_grad=False)
    x.requires_grad_()
    no_detach = (
        r"Can't call numpy\(\)",
        "forgot-detach",
        "Inside forward x still says that it requires a gradient, and NumPy refuses such tensors: x.detach().cpu().numpy().",
    )
    not_a_tensor = (
        "ndarray|must be a Tensor|expected Variable|Tensor or tuple",
        "returns-an-array",
        "SciPy returns an array. Turn it into a tensor of x's dtype and device.",
    )
    y = exam.run("forward runs", lambda: BesselJ0.apply(x), [no_detach, not_a_tensor])
    exam.that(
        "the result is a tensor",
        isinstance(y, Tensor),
        f"It is a {type(y).__name__}.",
        "returns-an-array",
        "SciPy returns an array. Turn it into a tensor of x's dtype and device.",
    )
    j0, j1 = (torch.from_numpy(f(x.detach().numpy())) for f in (scipy.special.j0, scipy.special.j1))
    exam.close("forward gives J0(x)", y, j0)
    upstream = exam.randn(2, 3, requires_grad=False)
    (gradient,) = exam.gradients("backward runs", BesselJ0.apply, [x], upstream, [no_detach, not_a_tensor])
    exam.close(
        "backward gives -J1(x) times grad_output",
        gradient,
        -j1 * upstream,
        [
            Mistake("wrong-sign", j1 * upstream, "The derivative of J0 is minus J1."),
            Mistake(
                "forgot-upstream", -j1, "That is the local derivative alone. Multiply it by grad_output."
            ),
            Mistake(
                "function-for-derivative",
                j0 * upstream,
                "You multiplied by J0 itself; its derivative is -J1.",
            ),
        ],
    )
    single = x.detach().float().requires_grad_()
    y = exam.run("it runs in float32", lambda: BesselJ0.apply(single))
    exam.close(
        "float32 in, float32 out",
        y,
        j0.float(),
        slug="changes-the-dtype",
        hint="SciPy may answer in float64. torch.as_tensor(value, dtype=x.dtype) keeps the kitchen's units.",
        rtol=1e-4,
        atol=1e-6,
    )
    _refuses_or_is_right(
        exam,
        BesselJ0.apply,
        x,
        2 * (j1**2 - j0 * torch.from_numpy(scipy.special.jvp(1, x.detach().numpy()))),
        "Backward leaves the graph for SciPy, so a second derivative would be silently missing. @once_differentiable above backward "
        "turns that into an error.",
    )


@exercise("07_applications/linear_solve")
def check_linear_solve(exam: Exam) -> None:
    """``Solve``: the adjoint of a linear solve."""
    Solve = exam.function()
    A = exam.randn(4, 4, requires_grad=False) + 3 * torch.eye(4, dtype=torch.float64)
    A.requires_grad_()
    b = exam.randn(4, 2)
    x = exam.run("forward runs", lambda: Solve.apply(A, b))
    solution = torch.linalg.solve(A.detach(), b.detach())
    exam.close(
        "forward solves A x = b",
        x,
        solution,
        [
            Mistake("multiplies", A.detach() @ b.detach(), "That is A b. Solve A x = b for x."),
            Mistake("solves-transposed", torch.linalg.solve(A.detach().T, b.detach()), "You solved with the transposed matrix; forward uses A."),
        ],
    )  # fmt: skip
    upstream = exam.randn(4, 2, requires_grad=False)
    adjoint = torch.linalg.solve(A.detach().T, upstream)
    not_transposed = torch.linalg.solve(A.detach(), upstream)
    grad_A, grad_b = exam.gradients(
        "backward runs",
        Solve.apply,
        [A, b],
        upstream,
        [
            (
                "shapes cannot be multiplied|invalid gradient",
                "wrong-shape",
                "The gradient of A is (n, k) times (k, n): adjoint @ x.T.",
            )
        ],
    )
    transposed = "The adjoint solve uses the transposed matrix: torch.linalg.solve(A.mT, grad_output)."
    exam.close(
        "the gradient of b is the adjoint solution",
        grad_b,
        adjoint,
        [
            Mistake("forgot-transpose", not_transposed, transposed),
            Mistake(
                "multiplies-backward",
                A.detach().T @ upstream,
                "The derivative of a solve is a solve, with the transposed matrix.",
            ),
            Mistake("wrong-sign", -adjoint, "The minus belongs to the gradient of A, not to that of b."),
        ],
    )
    exam.close(
        "the gradient of A is -adjoint xᵀ",
        grad_A,
        -adjoint @ solution.T,
        [
            Mistake("missing-minus", adjoint @ solution.T, "d(A⁻¹) is -A⁻¹ dA A⁻¹: the minus sign is missing."),
            Mistake("outer-product-exchanged", -solution @ adjoint.T, "The factors are exchanged: the adjoint comes first, then xᵀ."),
            Mistake("right-hand-side-for-solution", -adjoint @ b.detach().T, "The second factor is the solution x, not the right-hand side b."),
            Mistake("gradient-of-A-missing", None, "None for A drops its gradient silently. The matrix carries parameters too."),
        ],
    )  # fmt: skip
    (only_b,) = exam.gradients(
        "it works when only b requires a gradient", lambda c: Solve.apply(A.detach(), c), [b], upstream
    )
    exam.close("with the same gradient", only_b, adjoint)
    weight = exam.randn(4, 4, requires_grad=False)

    def second(solve: Callable) -> Tensor:
        (first,) = torch.autograd.grad((solve(A, b) ** 2).sum(), A, create_graph=True)
        return torch.autograd.grad((first * weight).sum(), A, allow_unused=True)[0]

    cut = (
        "Something backward reads or computes is outside the graph. Save A and the output (autograd knows both), and solve with an operator that "
        "autograd can see, such as torch.linalg.solve or Solve.apply itself."
    )
    got = exam.run(
        "the gradient can be differentiated again",
        lambda: second(Solve.apply),
        [("does not require grad|once_differentiable", "second-derivative", cut)],
    )
    exam.close(
        "the second derivative is right",
        got,
        second(torch.linalg.solve),
        [Mistake("second-derivative", None, cut)],
        hint=cut,
        slug="second-derivative",
    )


def _saved_bytes(fn: Callable[[], Any]) -> int:
    """Bytes kept for backward, each storage counted once, tensors on ctx attributes included."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = fn()
    for value in vars(output.grad_fn).values() if hasattr(output.grad_fn, "__dict__") else ():
        if isinstance(value, Tensor):
            kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    return sum(kept.values())


@exercise("07_applications/swiglu")
def check_swiglu(exam: Exam) -> None:
    """``SwiGLU``: the inputs are kept, the rest is computed again."""
    SwiGLU = exam.function()
    gate, up = 2 * exam.randn(3, 4, requires_grad=False), exam.randn(3, 4)
    gate.requires_grad_()
    g, u = gate.detach().clone(), up.detach().clone()
    sigmoid = g.sigmoid()
    y = exam.run("forward runs", lambda: SwiGLU.apply(gate, up))
    exam.close(
        "forward gives silu(gate) times up",
        y,
        g * sigmoid * u,
        [
            Mistake("sigmoid-for-silu", sigmoid * u, "That is σ(gate)·up. silu(gate) is gate·σ(gate)."),
            Mistake(
                "arguments-exchanged",
                u * u.sigmoid() * g,
                "The arguments are exchanged: silu belongs to the first.",
            ),
        ],
    )
    upstream = exam.randn(3, 4, requires_grad=False)
    grad_gate, grad_up = exam.gradients("backward runs", SwiGLU.apply, [gate, up], upstream)
    slope = sigmoid * (1 + g * (1 - sigmoid))
    exam.close(
        "the gradient of gate is silu'(gate) times up times grad_output",
        grad_gate,
        upstream * u * slope,
        [
            Mistake("half-the-product-rule", upstream * u * sigmoid, "silu is a product, gate times σ(gate): differentiate the second factor too."),
            Mistake("half-the-product-rule", upstream * u * g * sigmoid * (1 - sigmoid), "silu is a product, gate times σ(gate): differentiate the first factor too."),
            Mistake("gradients-exchanged", upstream * g * sigmoid, "The two gradients are exchanged: gate's comes first."),
            Mistake("forgot-up", upstream * slope, "The factor up is missing."),
            Mistake("forgot-upstream", u * slope, "Multiply by grad_output."),
        ],
    )  # fmt: skip
    exam.close(
        "the gradient of up is silu(gate) times grad_output",
        grad_up,
        upstream * g * sigmoid,
        [
            Mistake("gradient-of-up-missing", None, "None for up drops its gradient silently."),
            Mistake("forgot-upstream", g * sigmoid, "Multiply by grad_output."),
        ],
    )
    inputs = (torch.randn(64, 32, requires_grad=True), torch.randn(64, 32, requires_grad=True))
    allowed = sum(each.untyped_storage().nbytes() for each in inputs)
    kept = exam.run("its memory can be measured", lambda: _saved_bytes(lambda: SwiGLU.apply(*inputs)))
    exam.that(
        "nothing but the two inputs is kept",
        kept <= allowed,
        f"{kept} bytes are kept for backward; the two inputs have {allowed}.",
        "keeps-intermediates",
        "Save gate and up only, and compute the sigmoid again in backward: arithmetic is cheaper than memory here.",
    )
    again = exam.run("a second backward runs", lambda: _twice(SwiGLU, gate, up, upstream))
    exam.close("a second backward gives the same", again, upstream * u * slope, slug="changes-what-was-saved",
               hint="Backward wrote into a saved tensor: it belongs to the caller. Avoid operators with a trailing underscore.")  # fmt: skip


def _twice(function: type[torch.autograd.Function], gate: Tensor, up: Tensor, upstream: Tensor) -> Tensor:
    y = function.apply(gate, up)
    torch.autograd.grad(y, gate, upstream, retain_graph=True)
    return torch.autograd.grad(y, gate, upstream)[0]


@exercise("07_applications/attention")
def check_attention(exam: Exam) -> None:
    """``Attention``: gradients by recomputation, one block of queries at a time."""
    Attention = exam.function()
    q, k, v = exam.randn(7, 4), exam.randn(5, 4), exam.randn(5, 3)
    upstream = exam.randn(7, 3, requires_grad=False)
    wrong_shapes = (
        "shapes cannot be multiplied|must match|invalid gradient|doesn't match",
        "shapes-do-not-fit",
        "With 7 queries and 5 keys the shapes tell which factor is transposed: P is (queries, keys), so V's gradient is P.T @ grad_o.",
    )
    grads = exam.gradients(
        "backward runs for 7 queries, 5 keys, blocks of 3",
        lambda *each: Attention.apply(*each, 3)[0],
        [q, k, v],
        upstream,
        [
            wrong_shapes,
            (
                "incorrect number",
                "wrong-count",
                "Four arguments, four values: the gradients of q, k, v, and None for block.",
            ),
        ],
    )
    scale = 0.5
    Q, K, V = q.detach(), k.detach(), v.detach()
    P = (scale * Q @ K.T).softmax(1)
    grad_p = upstream @ V.T
    row_sums = (upstream * (P @ V)).sum(1, keepdim=True)
    grad_s = P * (grad_p - row_sums)
    no_rows = P * grad_p
    last = slice(6, 7)
    forgot_scale = "The scale s is a factor of the scores, so it multiplies the gradients of q and k as well."
    forgot_rows = "P sums to one along each row, and that couples its entries: subtract D, the row sums of grad_o times o."
    one_block = "Every block of queries adds to the gradients of k and v. Yours keeps one block only: use +=."
    exam.close(
        "the gradient of v is Pᵀ grad_o",
        grads[2],
        P.T @ upstream,
        [
            Mistake("keeps-one-block", P[last].T @ upstream[last], one_block),
            Mistake("scores-for-probabilities", (scale * Q @ K.T).T @ upstream, "Those are scores. P = exp(S - lse) turns them into probabilities."),
            Mistake("unnormalised", (scale * Q @ K.T).exp().T @ upstream, "exp(S) is not normalised yet: subtract the saved log-sum-exp first."),
        ],
    )  # fmt: skip
    exam.close(
        "the gradient of q is s times grad_S K",
        grads[0],
        scale * grad_s @ K,
        [
            Mistake("forgot-the-scale", grad_s @ K, forgot_scale),
            Mistake("forgot-the-row-sums", scale * no_rows @ K, forgot_rows),
            Mistake("wrong-sign", -scale * grad_s @ K, "The sign is turned: grad_P minus D."),
            Mistake("forgot-the-probabilities", scale * (grad_p - row_sums) @ K, "The factor P is missing in front of (grad_P - D)."),
        ],
    )  # fmt: skip
    exam.close(
        "the gradient of k is s times grad_Sᵀ Q",
        grads[1],
        scale * grad_s.T @ Q,
        [
            Mistake("forgot-the-scale", grad_s.T @ Q, forgot_scale),
            Mistake("forgot-the-row-sums", scale * no_rows.T @ Q, forgot_rows),
            Mistake("keeps-one-block", scale * grad_s[last].T @ Q[last], one_block),
        ],
    )
    one = exam.gradients(
        "one block for all runs", lambda *each: Attention.apply(*each, 64)[0], [q, k, v], upstream
    )
    exam.close(
        "the block size does not change the gradient",
        one[0],
        grads[0].detach(),
        hint="A last, shorter block is a block too.",
    )
    huge = exam.gradients(
        "huge scores run",
        lambda *each: Attention.apply(*each, 3)[0],
        [(40 * Q).requires_grad_(), (40 * K).requires_grad_(), v],
        upstream,
    )
    exam.close("huge scores give finite gradients", huge[2], (scale * 1600 * Q @ K.T).softmax(1).T @ upstream,
               slug="unstable", hint="exp(S) / exp(lse) overflows where exp(S - lse) does not.")  # fmt: skip
    q, k, v = (torch.randn(96, 4, requires_grad=True) for _ in range(3))
    o, _ = Attention.apply(q, k, v, 8)
    with LargestTensor() as seen:
        exam.run("backward runs for 96 queries", lambda: torch.autograd.grad(o.sum(), (q, k, v)))
    exam.that(
        "no matrix of all queries by all keys is made",
        seen.largest < 96 * 96,
        f"A tensor of {seen.largest} numbers was made; 96 queries times 96 keys are {96 * 96}, a block has {8 * 96}.",
        "whole-matrix",
        "The gradient is right, but the memory is that of plain attention. Loop over blocks of ctx.block queries as forward does.",
    )


def _second_derivative_of_square(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    (first,) = torch.autograd.grad(fn(x) ** 2, x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)[0]


@exercise("07_applications/cross_entropy")
def check_cross_entropy(exam: Exam) -> None:
    """``ChunkedCrossEntropy``: the loss and its gradients, never all logits."""
    Chunked = exam.function()
    x, weight = exam.randn(7, 3), exam.randn(5, 3)
    target = exam.randint(0, 5, 7)
    z, w = x.detach(), weight.detach()
    loss = exam.run("forward runs for 7 rows in chunks of 3", lambda: Chunked.apply(x, weight, target, 3))
    each = -(z @ w.T).log_softmax(1)[torch.arange(7), target]
    exam.close(
        "the mean cross entropy",
        loss,
        each.mean(),
        [
            Mistake("sum-for-mean", each.sum(), "That is the sum. Divide by the number of rows."),
            Mistake("drops-the-last-chunk", each[:6].sum() / 7, "The last, shorter chunk is missing: 7 rows are 3 + 3 + 1."),
            Mistake("drops-the-last-chunk", each[:6].mean(), "The last, shorter chunk is missing: 7 rows are 3 + 3 + 1."),
            Mistake("mean-of-means", torch.stack([each[:3].mean(), each[3:6].mean(), each[6:].mean()]).mean(),
                    "A mean of chunk means weighs the short chunk too much. Add up, divide once."),
            Mistake("wrong-sign", -each.mean(), "The cross entropy is minus the log-probability."),
        ],
    )  # fmt: skip
    upstream = torch.tensor(1.7, dtype=torch.float64)
    grad_x, grad_weight = exam.gradients(
        "backward runs",
        lambda a, b: Chunked.apply(a, b, target, 3),
        [x, weight],
        upstream,
        [
            (
                "incorrect number",
                "wrong-count",
                "Four arguments, four values: the gradients of x and weight, and None twice.",
            )
        ],
    )
    p = (z @ w.T).softmax(1)
    grad_logits = p.clone()
    grad_logits[torch.arange(7), target] -= 1
    exam.close(
        "the gradient of x",
        grad_x,
        upstream * grad_logits @ w / 7,
        [
            Mistake("forgot-upstream", grad_logits @ w / 7, "Backward must scale what forward computed by grad_output."),
            Mistake("forgot-the-target", upstream * p @ w / 7, "The gradient of the logits is p minus one at the target: the minus one is missing."),
            Mistake("forgot-the-mean", upstream * grad_logits @ w, "The loss is a mean: divide the gradients by the number of rows."),
        ],
    )  # fmt: skip
    exam.close(
        "the gradient of weight",
        grad_weight,
        upstream * grad_logits.T @ z / 7,
        [
            Mistake("keeps-one-chunk", upstream * grad_logits[6:].T @ z[6:] / 7, "Every chunk adds to weight's gradient. Yours keeps the last only: use +=."),
            Mistake("forgot-upstream", grad_logits.T @ z / 7, "Backward must scale what forward computed by grad_output."),
            Mistake("gradient-of-weight-missing", None, "None for weight drops its gradient silently."),
        ],
    )  # fmt: skip
    huge = exam.run("huge logits run", lambda: Chunked.apply(300 * z, 10 * w, target, 3))
    exam.close("huge logits give a finite loss", huge, -(3000 * z @ w.T).log_softmax(1)[torch.arange(7), target].mean(),
               slug="unstable", hint="exp overflows. log_softmax, or logsumexp, subtracts the largest logit first.")  # fmt: skip
    rows, classes = torch.randn(64, 4, requires_grad=True), torch.randn(96, 4, requires_grad=True)
    labels = torch.arange(64)

    def both_ways() -> None:
        torch.autograd.grad(Chunked.apply(rows, classes, labels, 8), (rows, classes))

    with LargestTensor() as seen:
        exam.run("it runs for 64 rows and 96 classes", both_ways)
    exam.that(
        "the logits are never held all at once",
        seen.largest < 64 * 96,
        f"A tensor of {seen.largest} numbers was made; all logits are {64 * 96}, a chunk has {8 * 96}.",
        "whole-logits",
        "The numbers are right, but the memory is that of the plain loss. Work on x[start : start + chunk] at a time.",
    )
    _refuses_or_is_right(
        exam,
        lambda a: Chunked.apply(a, w, target, 3),
        x,
        _second_derivative_of_square(lambda a: torch.nn.functional.cross_entropy(a @ w.T, target), x),
        "The gradients were computed in forward, outside the graph: a second derivative would be silently wrong. @once_differentiable above "
        "backward refuses it.",
    )
