"""Functions that trade a little arithmetic for a lot of memory: recomputation, tiles and chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from . import arguments
from .contract import Support

FLOATS = (torch.float32, torch.float64)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def _block(scratch: Tensor, rows: slice, columns: slice) -> Tensor:
    """Room for one block of a matrix, in memory that every block uses again."""
    height, width = rows.stop - rows.start, columns.stop - columns.start
    return scratch[: height * width].view(height, width)


class RecomputeSwiGLU(torch.autograd.Function):
    r"""``silu(gate) * up``, keeping its inputs and nothing else.

    .. math::
        y = g\,\sigma(g)\,u, \qquad \bar g = \bar y\,u\,\sigma(g)\bigl(1 + g(1 - \sigma(g))\bigr), \qquad \bar u = \bar y\,g\,\sigma(g)

    Autograd keeps g, u and silu(g); here silu(g) is computed again, in one pass. Saves ``gate`` and ``up``, which are
    usually alive anyway. Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: N. Shazeer (2020), "GLU Variants Improve Transformer", arXiv:2002.05202; T. Chen et al. (2016), "Training Deep
    Nets with Sublinear Memory Cost", arXiv:1604.06174.
    """

    support = Support(True, True, False, True, FLOATS, "gate, up")

    @staticmethod
    def forward(gate: Tensor, up: Tensor) -> Tensor:
        return functional.silu(gate).mul_(up)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        gate, up = ctx.saved_tensors
        needs_gate, needs_up = ctx.needs_input_grad
        grad_gate = _through_silu(grad_output * up, gate) if needs_gate else None
        return grad_gate, grad_output * functional.silu(gate) if needs_up else None

    @staticmethod
    def vmap(info, in_dims: tuple[int | None, int | None], gate: Tensor, up: Tensor) -> tuple[Tensor, int]:
        gate, up = (  # forward multiplies in place: both need the batch
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((gate, up), in_dims, strict=True)
        )
        return RecomputeSwiGLU.apply(gate, up), 0


def _through_silu(grad_output: Tensor, x: Tensor) -> Tensor:
    """The VJP of silu: by torch's kernel, in one pass over memory, unless it may be differentiated again."""
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(grad_output, x)
    sigmoid = x.sigmoid()
    return grad_output * (sigmoid + x * sigmoid * (1 - sigmoid))


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


ROWS = 128  # queries in one tile: a tile of scores should fit the processor's cache


class TiledAttention(torch.autograd.Function):
    r"""Attention over tiles of queries, with the log-sum-exp of each row of scores saved in place of the scores.

    .. math::
        S = s\,QK^\top, \quad L_i = \log\textstyle\sum_j e^{S_{ij}}, \quad P = e^{S - L}, \quad O = PV

    .. math::
        \bar V = P^\top\bar O, \quad \bar S = P \circ (\bar O V^\top - D), \quad D = \mathrm{rowsum}(\bar O \circ O), \quad
        \bar Q = s\,\bar S K, \quad \bar K = s\,\bar S^\top Q

    ``apply(q, k, v, is_causal, scale)`` for q (h, n, d), k (h, m, d), v (h, m, e); gives O (h, n, e) and L (h, n, 1),
    which carries no gradient. Backward computes P again from q, k and L, tile by tile, in one piece of scratch memory:
    n·m numbers are never held, and memory is linear in n and m. Saves q, k, v, O and L. float32 and float64.
    Differentiable once; no ``torch.func``; for ``torch.compile`` use ``tiled_attention_op``.

    Source: T. Dao et al. (2022), "FlashAttention", arXiv:2205.14135.
    """

    support = Support(False, False, False, False, FLOATS, "q, k, v, output, log-sum-exp")

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, is_causal: bool, scale: float) -> tuple[Tensor, Tensor]:
        o, lse = q.new_empty(*q.shape[:2], v.shape[2]), q.new_empty(*q.shape[:2], 1)
        scratch = _scratch(q, k)
        for h, rows, seen in _tiles(q, k, is_causal):
            s = torch.matmul(q[h, rows] * scale, k[h, seen].T, out=_block(scratch, rows, seen))
            if is_causal:
                _hide_later(s, rows, -math.inf)
            top = s.amax(1, keepdim=True)
            p = s.sub_(top).exp_()
            total = p.sum(1, keepdim=True)
            lse[h, rows] = top + total.log()
            torch.matmul(p, v[h, seen], out=o[h, rows]).div_(total)
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
        grads = TiledAttention.gradients(grad_o, *ctx.saved_tensors, ctx.is_causal, ctx.scale)
        return *grads, None, None

    @staticmethod
    def gradients(
        grad_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, is_causal: bool, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        grad_q, grad_k, grad_v = q.new_empty(q.shape), k.new_zeros(k.shape), v.new_zeros(v.shape)
        scratch, second = _scratch(q, k), _scratch(q, k)
        for h, rows, seen in _tiles(q, k, is_causal):
            g, scaled = grad_o[h, rows], q[h, rows] * scale
            row_sums = (g * o[h, rows]).sum(1, keepdim=True)
            p = torch.addmm(-lse[h, rows], scaled, k[h, seen].T, out=_block(scratch, rows, seen)).exp_()
            if is_causal:
                _hide_later(p, rows, 0.0)
            grad_v[h, seen].addmm_(p.T, g)
            grad_s = torch.addmm(-row_sums, g, v[h, seen].T, out=_block(second, rows, seen)).mul_(p)
            torch.matmul(grad_s, k[h, seen], out=grad_q[h, rows]).mul_(scale)
            grad_k[h, seen].addmm_(grad_s.T, scaled)
        return grad_q, grad_k, grad_v


def _tiles(q: Tensor, k: Tensor, is_causal: bool) -> Iterator[tuple[int, slice, slice]]:
    """Every tile: its head, its rows of queries, and the keys that some of them see."""
    (heads, n, _), m = q.shape, k.shape[1]
    for h in range(heads):
        for rows in _slices(n, ROWS):
            yield h, rows, slice(0, min(rows.stop, m) if is_causal else m)


def _scratch(q: Tensor, k: Tensor) -> Tensor:
    """Memory for one tile of scores, which every tile uses again."""
    return q.new_empty(min(ROWS, q.shape[1]) * k.shape[1])


def _hide_later(tile: Tensor, rows: slice, value: float) -> None:
    """Overwrite what lies right of the diagonal: keys that come after their query."""
    keys = torch.arange(tile.shape[1], device=tile.device)
    queries = torch.arange(rows.start, rows.stop, device=tile.device)
    tile.masked_fill_(keys > queries[:, None], value)


def tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """Scaled dot-product attention that never holds all scores.

    Args:
        q: shape (…, n, d). k: (…, m, d). v: (…, m, e); leading dimensions broadcast. All float32 or all float64.
        is_causal: query i sees keys 0 to i only, as in ``F.scaled_dot_product_attention``.
        scale: factor of the scores; 1/√d by default.

    Returns:
        Shape (…, n, e).

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> q, k = torch.zeros(1, 2), torch.zeros(3, 2)
    >>> tiled_attention(q, k, torch.tensor([[1.0], [2.0], [6.0]]))
    tensor([[3.]])
    """
    arguments.same_kind(q=q, k=k, v=v)
    if min(q.dim(), k.dim(), v.dim()) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"q, k and v have shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; they must be (…, n, d), (…, m, d), (…, m, e)."
        )
    if 0 in (q.shape[-1], k.shape[-2]):
        raise ValueError("attention needs at least one key and one feature.")
    scale = q.shape[-1] ** -0.5 if scale is None else arguments.number("scale", scale)
    try:
        lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"the leading dimensions of q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not broadcast together."
        ) from None
    heads = math.prod(lead)
    flat = (x.expand(*lead, *x.shape[-2:]).reshape(heads, *x.shape[-2:]) for x in (q, k, v))
    o, _ = TiledAttention.apply(*flat, bool(is_causal), scale)
    return o.reshape(*lead, *o.shape[-2:])


class LinearCrossEntropy(torch.autograd.Function):
    r"""Cross entropy of the logits ``x @ weight.T``, chunk by chunk: the logits are never held at once.

    .. math::
        \ell = \sum_{i\,\in\,\text{kept}} \bigl(\log\textstyle\sum_c e^{z_{ic}} - z_{i t_i}\bigr), \qquad
        \bar z_i = \mathrm{softmax}(z_i) - e_{t_i}, \qquad \bar x = \bar z W, \quad \bar W = \bar z^\top x

    ``apply(x, weight, target, ignore_index, mean, chunk, vocabulary_chunk=None)`` for x (n, d), weight (c, d), target
    (n,); the loss is 0-d. The gradients are computed in forward, while a chunk's logits are there, and only scaled in
    backward. With ``vocabulary_chunk`` the classes come in pieces too, through an online log-sum-exp; a piece's logits
    make room for the next, so the gradients compute them again: three products of the full size become four.

    Returns the loss and the two gradients, which carry none themselves and are what backward needs: nothing else is
    saved, and an input that requires no gradient costs none. float32 and float64. Differentiable once; no
    ``torch.func``; for ``torch.compile`` use ``linear_cross_entropy_op``. torch has the same idea, without pieces of the
    vocabulary: ``F.linear_cross_entropy(…, options=torch.nn.LinearCrossEntropyOptions())``.

    Source: P.-L. Hsu et al. (2024), "Liger Kernel", arXiv:2410.10989; M. Milakov and N. Gimelshein (2018), "Online
    Normalizer Calculation for Softmax", arXiv:1805.02867.
    """

    support = Support(False, False, False, False, FLOATS, "gradients of x and weight")

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor,
        target: Tensor,
        ignore_index: int,
        mean: bool,
        chunk: int,
        vocabulary_chunk: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        needs_x, needs_weight = x.requires_grad, weight.requires_grad
        grad_x = torch.zeros_like(x) if needs_x else x.new_empty(0)
        grad_weight = torch.zeros_like(weight) if needs_weight else x.new_empty(0)
        kept = target != ignore_index
        total = x.new_zeros(())
        pieces = _slices(len(weight), vocabulary_chunk or len(weight))
        scratch = x.new_empty(min(chunk, len(x)) * pieces[0].stop)
        for rows in _slices(len(x), chunk):
            tokens, ignored, classes = x[rows], ~kept[rows, None], target[rows, None]
            top, mass = x.new_full(classes.shape, -math.inf), x.new_zeros(classes.shape)
            chosen = x.new_zeros(classes.shape)
            for piece in pieces:
                z = torch.matmul(tokens, weight[piece].T, out=_block(scratch, rows, piece))
                places, elsewhere = _places(classes, piece)
                chosen += z.gather(1, places).masked_fill_(elsewhere, 0)
                before, top = top, torch.maximum(top, z.amax(1, keepdim=True))
                mass = mass * (before - top).exp_() + z.sub_(top).exp_().sum(1, keepdim=True)
            total += (top + mass.log() - chosen).masked_fill_(ignored, 0).sum()
            share = mass.reciprocal().masked_fill_(ignored, 0)
            for piece in pieces if needs_x or needs_weight else ():
                if len(pieces) > 1:  # z holds the last piece only
                    z = (
                        torch.matmul(tokens, weight[piece].T, out=_block(scratch, rows, piece))
                        .sub_(top)
                        .exp_()
                    )
                places, elsewhere = _places(classes, piece)
                grad_z = z.mul_(share).scatter_add_(1, places, (elsewhere | ignored).to(z.dtype) - 1)
                if needs_x:
                    grad_x[rows].addmm_(grad_z, weight[piece])
                if needs_weight:
                    grad_weight[piece].addmm_(grad_z.T, tokens)
        if mean:
            count = kept.sum()
            total /= count  # NaN without a target, where the gradients are 0, as torch has it
            grad_x /= count.clamp(min=1)
            grad_weight /= count.clamp(min=1)
        return total, grad_x, grad_weight

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple[Tensor, Tensor, Tensor]) -> None:
        _, grad_x, grad_weight = output
        ctx.mark_non_differentiable(grad_x, grad_weight)
        ctx.save_for_backward(grad_x, grad_weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_weight = ctx.saved_tensors
        needs_x, needs_weight, *others = ctx.needs_input_grad
        return (
            grad_loss * grad_x if needs_x else None,
            grad_loss * grad_weight if needs_weight else None,
            *(None for _ in others),
        )


def _places(classes: Tensor, piece: slice) -> tuple[Tensor, Tensor]:
    """The column of each class in a piece of the vocabulary (any column, where it has none), and where it has none."""
    return (
        (classes - piece.start).clamp(0, piece.stop - piece.start - 1),
        (classes < piece.start) | (classes >= piece.stop),
    )


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    reduction: str = "mean",
    chunk: int = 256,
    vocabulary_chunk: int | None = None,
) -> Tensor:
    """Cross entropy of ``x @ weight.T`` against ``target``, without holding all logits.

    Args:
        x: shape (n, d). weight: (classes, d). Both float32 or both float64.
        target: (n,), class numbers or ``ignore_index``.
        reduction: "mean" over the targets that are not ignored (NaN when all are, as ``F.cross_entropy``), or "sum".
        chunk: rows at a time.
        vocabulary_chunk: classes at a time; all by default. Less memory, but the logits are computed twice, which takes a
            third longer.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> linear_cross_entropy(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
    tensor(0.3133)
    """
    arguments.same_kind(x=x, weight=weight)
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1] or not len(weight):
        raise ValueError(
            f"x and weight have shapes {tuple(x.shape)} and {tuple(weight.shape)}; they must be (n, d) and (classes, d)."
        )
    if not isinstance(target, Tensor) or target.dtype != torch.int64 or target.shape != x.shape[:1]:
        raise ValueError(f"target must be {len(x)} whole numbers (torch.int64), one for each row of x.")
    if target.device != x.device:
        raise ValueError(f"target is on {target.device}, x on {x.device}; move one of them with .to(device).")
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}; allowed are 'mean' and 'sum'.")
    vocabulary_chunk = len(weight) if vocabulary_chunk is None else vocabulary_chunk
    for name, value in (("chunk", chunk), ("vocabulary_chunk", vocabulary_chunk)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value}; it must be a whole number of at least 1.")
    wrong = (target != ignore_index) & ((target < 0) | (target >= len(weight)))
    if bool(wrong.any()):
        raise ValueError(
            f"target holds {int(target[wrong][0])}; classes are 0 to {len(weight) - 1}, and {ignore_index} is ignored."
        )
    if not torch.is_grad_enabled():  # forward would compute gradients that nobody asks for
        x, weight = x.detach(), weight.detach()
    loss, _, _ = LinearCrossEntropy.apply(
        x, weight, target, ignore_index, reduction == "mean", chunk, vocabulary_chunk
    )
    return loss


# -- the same as operators of torch.library, the way to ship them: torch.compile and export see one node where a Function
# -- would be traced loop by loop, and a device can register a kernel of its own.


@torch.library.custom_op("custom_gradients::swiglu", mutates_args=())
def swiglu_op(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up`` as an operator: visible to ``torch.compile`` and export, dispatched by device."""
    return RecomputeSwiGLU.forward(gate, up)


@swiglu_op.register_fake
def _(gate: Tensor, up: Tensor) -> Tensor:
    return torch.empty_like(gate)


swiglu_op.register_autograd(RecomputeSwiGLU.backward, setup_context=RecomputeSwiGLU.setup_context)


@torch.library.custom_op("custom_gradients::tiled_attention", mutates_args=())
def tiled_attention_op(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """``TiledAttention`` as an operator, for q (h, n, d), k (h, m, d), v (h, m, e): the output and the log-sum-exp."""
    return TiledAttention.forward(q, k, v, is_causal, scale)


@tiled_attention_op.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return q.new_empty(*q.shape[:2], v.shape[2]), q.new_empty(*q.shape[:2], 1)


@torch.library.custom_op("custom_gradients::tiled_attention_backward", mutates_args=())
def _tiled_attention_backward_op(
    grad_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    return TiledAttention.gradients(grad_o, q, k, v, o, lse, is_causal, scale)


@_tiled_attention_backward_op.register_fake
def _(grad_o: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _tiled_attention_backward(ctx, grad_o: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
    return *_tiled_attention_backward_op(grad_o, *ctx.saved_tensors, ctx.is_causal, ctx.scale), None, None


tiled_attention_op.register_autograd(_tiled_attention_backward, setup_context=TiledAttention.setup_context)


@torch.library.custom_op("custom_gradients::linear_cross_entropy", mutates_args=())
def linear_cross_entropy_op(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    ignore_index: int,
    mean: bool,
    chunk: int,
    vocabulary_chunk: int,
    needs_x: bool,
    needs_weight: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """``LinearCrossEntropy`` as an operator: the loss and the gradients, empty where they are not needed.

    Compiled code does not tell an operator which inputs require a gradient, so the caller does.
    """
    x, weight = x.detach().requires_grad_(needs_x), weight.detach().requires_grad_(needs_weight)
    return LinearCrossEntropy.forward(x, weight, target, ignore_index, mean, chunk, vocabulary_chunk)


@linear_cross_entropy_op.register_fake
def _(x: Tensor, weight: Tensor, *others: object) -> tuple[Tensor, Tensor, Tensor]:
    *_, needs_x, needs_weight = others
    return (
        x.new_empty(()),
        torch.empty_like(x) if needs_x else x.new_empty(0),
        torch.empty_like(weight) if needs_weight else x.new_empty(0),
    )


linear_cross_entropy_op.register_autograd(
    LinearCrossEntropy.backward, setup_context=LinearCrossEntropy.setup_context
)
