"""Teaching Functions: the rules that a learner derives by hand first."""

from __future__ import annotations

import torch
from torch import Tensor

from . import arguments
from .contract import Support

FLOATS = (torch.float32, torch.float64)


class Cube(torch.autograd.Function):
    r"""The smallest complete Function: :math:`y = x^3`, :math:`y' = 3x^2`, element by element.

    Saves ``x``, an input, so the gradient can be differentiated as often as you like.
    Supports double backward, ``torch.func`` and forward mode; a Function with ``jvp`` is not traced by ``torch.compile``.
    """

    generate_vmap_rule = True
    support = Support(True, True, True, False, FLOATS, "x")

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x * x

    @staticmethod
    def jvp(ctx, tangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return tangent * 3 * x * x


def cube(x: Tensor) -> Tensor:
    """``x`` to the third power.

    Raises:
        TypeError: ``x`` is not a floating tensor.

    >>> cube(torch.tensor([2.0, -1.0]))
    tensor([ 8., -1.])
    """
    return Cube.apply(arguments.floating("x", x))


class Exp(torch.autograd.Function):
    r""":math:`y = e^x`, :math:`y' = y`: the one function that is its own derivative.

    Saves the *output*. It goes through ``save_for_backward``, so backward gets it back as the node's output, with its
    history: the second derivative is right. Kept as ``ctx.y`` it would be a constant, in a cycle that is never freed.
    Supports double backward, ``torch.func`` and ``torch.compile``.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "output")

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output * y


def exp(x: Tensor) -> Tensor:
    """The exponential of ``x``.

    Raises:
        TypeError: ``x`` is not a floating tensor.

    >>> exp(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return Exp.apply(arguments.floating("x", x))


class MatMulBias(torch.autograd.Function):
    r"""A linear layer, :math:`y = x W^\top + b`.

    .. math::
        \bar x = \bar y\,W, \qquad \bar W = \bar y^\top x, \qquad \bar b = \textstyle\sum_{rows} \bar y

    ``apply(x, weight, bias)`` with shapes (n, i), (o, i), (o,) gives (n, o). The bias is used by every row, so its
    gradient is a sum over the rows.

    Saves ``x`` and ``weight``; the bias is not needed. Each gradient is computed only when it is asked for.
    Supports double backward, ``torch.func`` and ``torch.compile``.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x, weight")

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return x @ weight.mT + bias

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        grad_x = grad_output @ weight if needs_x else None
        grad_weight = grad_output.mT @ x if needs_weight else None
        grad_bias = grad_output.sum(0) if needs_bias else None
        return grad_x, grad_weight, grad_bias


def matmul_bias(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x @ weight.T + bias`` for any number of leading dimensions of ``x``.

    Args:
        x: shape (…, i). weight: shape (o, i). bias: shape (o,). All of one floating dtype.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> matmul_bias(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]), torch.tensor([0.5]))
    tensor([[3.5000]])
    """
    arguments.same_kind(x=x, weight=weight, bias=bias)
    if weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[1] or bias.shape != weight.shape[:1]:
        raise ValueError(
            f"x, weight and bias have shapes {tuple(x.shape)}, {tuple(weight.shape)}, {tuple(bias.shape)}; "
            "they must be (…, i), (o, i) and (o,)."
        )
    rows = x.reshape(-1, x.shape[-1]) if x.numel() else x.reshape(x.shape[:-1].numel(), x.shape[-1])
    return MatMulBias.apply(rows, weight, bias).reshape(*x.shape[:-1], len(weight))


class Softmax(torch.autograd.Function):
    r"""Softmax along one dimension, with a VJP that never builds the Jacobian.

    .. math::
        y_i = \frac{e^{x_i}}{\sum_j e^{x_j}}, \qquad J = \mathrm{diag}(y) - y y^\top, \qquad
        v^\top J = y \circ (v - \langle v, y \rangle)

    The Jacobian of n entries has n² numbers; the product needs n.

    Saves the output. Supports double backward, ``torch.func`` and ``torch.compile``.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "output")

    @staticmethod
    def forward(x: Tensor, dim: int) -> Tensor:
        e = (x - x.amax(dim, keepdim=True)).exp()
        return e / e.sum(dim, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.dim = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(ctx.dim, keepdim=True)), None


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Softmax of ``x`` along ``dim``.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``dim`` not a whole number.
        ValueError: ``x`` is 0-d or has no dimension ``dim``.

    >>> softmax(torch.tensor([0.0, 0.0, 1000.0]))
    tensor([0., 0., 1.])
    """
    dim = arguments.dimension("dim", dim, arguments.floating("x", x))
    return x.clone() if x.numel() == 0 else Softmax.apply(x, dim)


class LayerNorm(torch.autograd.Function):
    r"""Layer norm over the last dimension.

    .. math::
        \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = w\,\hat x + b, \qquad
        \bar x = \frac{1}{\sqrt{\sigma^2 + \epsilon}}\bigl(g - \overline{g} - \hat x\,\overline{g \hat x}\bigr),\quad g = w\,\bar y

    with bars over g for the mean along the last dimension. ``apply(x, weight, bias, eps)`` with shapes (n, d), (d,),
    (d,). Mean and variance depend on x, and that is what the two subtracted means account for.

    Saves ``x`` and ``weight`` and computes mean and scale again: they are neither inputs nor outputs, and as saved
    constants they would make the second derivative wrong.
    Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: J. L. Ba et al. (2016), "Layer Normalization", arXiv:1607.06450.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x, weight")

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        normed, _ = _normalise(x, eps)
        return normed * weight + bias

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor, float], output: Tensor) -> None:
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        normed, scale = _normalise(x, ctx.eps)
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        g = grad_output * weight
        centred = g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True)
        grad_weight = (grad_output * normed).sum(0) if needs_weight else None
        return (
            scale * centred if needs_x else None,
            grad_weight,
            grad_output.sum(0) if needs_bias else None,
            None,
        )


def _normalise(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """``((x - mean) * scale, scale)`` along the last dimension."""
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    return centred * scale, scale


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer norm of ``x`` over its last dimension.

    Args:
        x: shape (…, d) with d at least 1. weight, bias: shape (d,). All of one floating dtype.
        eps: keeps the division away from zero; greater than 0.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> layer_norm(torch.tensor([[1.0, 3.0]]), torch.ones(2), torch.zeros(2))
    tensor([[-1.0000,  1.0000]])
    """
    arguments.same_kind(x=x, weight=weight, bias=bias)
    eps = arguments.number("eps", eps, above=0)
    if x.dim() < 1 or x.shape[-1] < 1 or not weight.shape == bias.shape == x.shape[-1:]:
        raise ValueError(
            f"x, weight and bias have shapes {tuple(x.shape)}, {tuple(weight.shape)}, {tuple(bias.shape)}; "
            "they must be (…, d), (d,) and (d,) with d at least 1."
        )
    return LayerNorm.apply(x.reshape(-1, x.shape[-1]), weight, bias, eps).reshape(x.shape)
