"""Functions that trade a little arithmetic for a lot of memory: recomputation, tiles and chunks."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from helpers.functions import arguments
from helpers.functions.contract import Support

FLOATS = (torch.float32, torch.float64)


class RecomputeSwiGLU(torch.autograd.Function):
    r"""``silu(gate) * up``, keeping its inputs and nothing else.

    .. math::
        y = g\,\sigma(g)\,u, \qquad \bar g = \bar y\,u\,\sigma(g)\bigl(1 + g(1 - \sigma(g))\bigr), \qquad \bar u = \bar y\,g\,\sigma(g)

    Autograd keeps g, u and silu(g); here silu(g) is computed again, which costs one sigmoid. Saves ``gate`` and ``up``,
    which are usually alive anyway. Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: N. Shazeer (2020), "GLU Variants Improve Transformer", arXiv:2002.05202; T. Chen et al. (2016), "Training Deep
    Nets with Sublinear Memory Cost", arXiv:1604.06174.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "gate, up")

    @staticmethod
    def forward(gate: Tensor, up: Tensor) -> Tensor:
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        gate, up = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        needs_gate, needs_up = ctx.needs_input_grad
        grad_gate = grad_output * up * (sigmoid + silu * (1 - sigmoid)) if needs_gate else None
        return grad_gate, grad_output * silu if needs_up else None


def recompute_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up`` with silu computed again in backward.

    Raises:
        TypeError, ValueError: the arguments are not floating tensors of one dtype, device and shape.

    >>> recompute_swiglu(torch.tensor([0.0, 2.0]), torch.tensor([3.0, 1.0]))
    tensor([0.0000, 1.7616])
    """
    arguments.same_kind(gate=gate, up=up)
    if gate.shape != up.shape:
        raise ValueError(
            f"gate and up have shapes {tuple(gate.shape)} and {tuple(up.shape)}; they must be the same."
        )
    return RecomputeSwiGLU.apply(gate, up)


BLOCK = 128


class TiledAttention(torch.autograd.Function):
    r"""Attention over blocks of queries, with the log-sum-exp of each row of scores saved in place of the scores.

    .. math::
        S = s\,QK^\top, \quad L = \log\textstyle\sum_j e^{S_{ij}}, \quad P = e^{S - L}, \quad O = PV

    .. math::
        \bar V = P^\top\bar O, \quad \bar S = P \circ (\bar O V^\top - D), \quad D = \mathrm{rowsum}(\bar O \circ O), \quad
        \bar Q = s\,\bar S K, \quad \bar K = s\,\bar S^\top Q

    ``apply(q, k, v, is_causal, scale)`` for q (h, n, d), k (h, m, d), v (h, m, e); gives o (h, n, e) and L (h, n), which
    carries no gradient. Backward computes P again, block by block: n² numbers are never held, memory is linear in n.

    Saves q, k, v, o and L. Differentiable once. Source: T. Dao et al. (2022), "FlashAttention", arXiv:2205.14135.
    """

    support = Support(False, False, False, False, FLOATS, "q, k, v, output, log-sum-exp")

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, is_causal: bool, scale: float) -> tuple[Tensor, Tensor]:
        heads, n, _ = q.shape
        o, lse = q.new_empty(heads, n, v.shape[2]), q.new_empty(heads, n)
        scratch = q.new_empty(min(BLOCK, n) * k.shape[1])
        for h in range(heads):
            for start in range(0, n, BLOCK):
                rows = slice(start, min(start + BLOCK, n))
                p = _scores(q[h, rows], k[h], start, is_causal, scale, scratch)
                lse[h, rows] = torch.logsumexp(p, 1)
                torch.matmul(_probabilities(p, lse[h, rows]), v[h], out=o[h, rows])
        return o, lse

    @staticmethod
    def setup_context(
        ctx, inputs: tuple[Tensor, Tensor, Tensor, bool, float], output: tuple[Tensor, Tensor]
    ) -> None:
        q, k, v, ctx.is_causal, ctx.scale = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(q, k, v, *output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_o: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, o, lse = ctx.saved_tensors
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        heads, n, _ = q.shape
        scratch, second = (q.new_empty(min(BLOCK, n) * k.shape[1]) for _ in range(2))
        for h in range(heads):
            for start in range(0, n, BLOCK):
                rows = slice(start, min(start + BLOCK, n))
                g = grad_o[h, rows]
                p = _probabilities(
                    _scores(q[h, rows], k[h], start, ctx.is_causal, ctx.scale, scratch), lse[h, rows]
                )
                grad_v[h].addmm_(p.T, g)
                row_sums = (g * o[h, rows]).sum(1, keepdim=True)
                grad_s = torch.matmul(g, v[h].T, out=second[: p.numel()].view_as(p))
                grad_s.sub_(row_sums).mul_(p).mul_(ctx.scale)
                torch.matmul(grad_s, k[h], out=grad_q[h, rows])
                grad_k[h].addmm_(grad_s.T, q[h, rows])
        return grad_q, grad_k, grad_v, None, None


def _scores(q: Tensor, k: Tensor, start: int, is_causal: bool, scale: float, scratch: Tensor) -> Tensor:
    """Scores of one block of queries, in scratch memory that every block uses again."""
    scores = torch.matmul(q, k.T, out=scratch[: len(q) * len(k)].view(len(q), len(k))).mul_(scale)
    if is_causal:
        later = (
            torch.arange(len(k), device=q.device)
            > torch.arange(start, start + len(q), device=q.device)[:, None]
        )
        scores.masked_fill_(later, -math.inf)
    return scores


def _probabilities(scores: Tensor, lse: Tensor) -> Tensor:
    return scores.sub_(lse[:, None]).exp_()


def tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """Scaled dot-product attention that never holds all scores.

    Args:
        q: shape (…, n, d). k: (…, m, d). v: (…, m, e); leading dimensions broadcast. One floating dtype.
        is_causal: query i sees keys 0 to i only.
        scale: factor of the scores; 1/√d by default.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.
    """
    arguments.same_kind(q=q, k=k, v=v)
    if min(q.dim(), k.dim(), v.dim()) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"q, k and v have shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; they must be (…, n, d), (…, m, d), (…, m, e)."
        )
    if 0 in (q.shape[-1], k.shape[-2]):
        raise ValueError("attention needs at least one key and one feature.")
    scale = q.shape[-1] ** -0.5 if scale is None else arguments.number("scale", scale)
    lead = (
        arguments.broadcastable(q=q[..., 0, 0], k=k[..., 0, 0], v=v[..., 0, 0])
        if q.shape[-2]
        else q.shape[:-2]
    )
    flat = [each.expand(*lead, *each.shape[-2:]).reshape(-1, *each.shape[-2:]) for each in (q, k, v)]
    o, _ = TiledAttention.apply(*flat, bool(is_causal), scale)
    return o.reshape(*lead, *o.shape[-2:])


class LinearCrossEntropy(torch.autograd.Function):
    r"""Cross entropy of the logits ``x @ weight.T``, over chunks of tokens: the logits are never held at once.

    .. math::
        \ell = \sum_{i\,\in\,\text{kept}} \bigl(\log\textstyle\sum_c e^{z_{ic}} - z_{i t_i}\bigr), \qquad
        \bar z_i = \mathrm{softmax}(z_i) - e_{t_i}, \qquad \bar x = \bar z W, \quad \bar W = \bar z^\top x

    ``apply(x, weight, target, ignore_index, mean, chunk)`` for x (n, d), weight (c, d), target (n,); the loss is 0-d.
    The gradients are computed in forward, while a chunk's logits are there, and only scaled in backward.

    Returns the loss and the two gradients, which carry none themselves and are what backward needs: nothing else is
    saved. Differentiable once. Source: P.-L. Hsu et al. (2024), "Liger Kernel", arXiv:2410.10989.
    """

    support = Support(False, False, False, False, FLOATS, "gradients of x and weight")

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, target: Tensor, ignore_index: int, mean: bool, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = target != ignore_index
        count = int(kept.sum()) if mean else 1
        needs_grad = x.requires_grad or weight.requires_grad
        total = x.new_zeros(())
        grad_x, grad_weight = (
            (torch.zeros_like(x), torch.zeros_like(weight))
            if needs_grad
            else (x.new_empty(0), x.new_empty(0))
        )
        logits = x.new_empty(min(chunk, len(x)), len(weight))
        for start in range(0, len(x), chunk):
            rows = slice(start, min(start + chunk, len(x)))
            z = torch.matmul(x[rows], weight.T, out=logits[: rows.stop - rows.start])
            classes, counts = target[rows].clamp(min=0)[:, None], kept[rows][:, None]
            lse = z.logsumexp(1, keepdim=True)
            total += ((lse - z.gather(1, classes)) * counts).sum()
            if needs_grad:
                z.sub_(lse).exp_()
                z.scatter_add_(1, classes, z.new_full(classes.shape, -1.0)).mul_(counts)
                torch.matmul(z, weight, out=grad_x[rows])
                grad_weight.addmm_(z.T, x[rows])
        if mean:
            grad_x.div_(count), grad_weight.div_(count)
            total = total / count
        return total, grad_x, grad_weight

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple[Tensor, Tensor, Tensor]) -> None:
        _, grad_x, grad_weight = output
        ctx.mark_non_differentiable(grad_x, grad_weight)
        ctx.save_for_backward(grad_x, grad_weight)

    @staticmethod
    @once_differentiable
    def backward(
        ctx, grad_loss: Tensor, *_: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None, None]:
        grad_x, grad_weight = ctx.saved_tensors
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        return (
            grad_loss * grad_x if needs_x else None,
            grad_loss * grad_weight if needs_weight else None,
            None,
            None,
            None,
            None,
        )


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    reduction: str = "mean",
    chunk: int = 128,
) -> Tensor:
    """Cross entropy of ``x @ weight.T`` against ``target``, without holding all logits.

    Args:
        x: shape (n, d). weight: (classes, d), the same floating dtype. target: (n,), class numbers or ``ignore_index``.
        reduction: "mean" over the targets that are not ignored, or "sum".
        chunk: rows at a time.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> linear_cross_entropy(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
    tensor(0.3133)
    """
    arguments.same_kind(x=x, weight=weight)
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
        raise ValueError(
            f"x and weight have shapes {tuple(x.shape)} and {tuple(weight.shape)}; they must be (n, d) and (classes, d)."
        )
    if not isinstance(target, Tensor) or target.is_floating_point() or target.shape != x.shape[:1]:
        raise ValueError(f"target must be {len(x)} whole numbers, one for each row of x.")
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}; allowed are 'mean' and 'sum'.")
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be a whole number of at least 1.")
    wrong = (target != ignore_index) & ((target < 0) | (target >= len(weight)))
    if bool(wrong.any()):
        raise ValueError(
            f"target holds {int(target[wrong][0])}; classes are 0 to {len(weight) - 1}, and {ignore_index} is ignored."
        )
    loss, _, _ = LinearCrossEntropy.apply(x, weight, target, ignore_index, reduction == "mean", chunk)
    return loss


# -- the same as operators of torch.library: how such a Function is shipped ------------------------------------------


@torch.library.custom_op("custom_gradients::swiglu", mutates_args=())
def swiglu_op(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up`` as an operator: visible to ``torch.compile`` and export, dispatched by device."""
    return torch.nn.functional.silu(gate) * up


@swiglu_op.register_fake
def _(gate: Tensor, up: Tensor) -> Tensor:
    return torch.empty_like(gate)


def _swiglu_backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
    return RecomputeSwiGLU.backward(ctx, grad_output)


def _swiglu_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


swiglu_op.register_autograd(_swiglu_backward, setup_context=_swiglu_context)
