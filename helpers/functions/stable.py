"""Functions whose value and gradient stay finite wherever the maths does."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from . import arguments
from .contract import Support

FLOATS = (torch.float32, torch.float64)


class LogSumExp(torch.autograd.Function):
    r"""Logarithm of a sum of exponentials along one dimension.

    .. math::
        y = m + \log \sum_i e^{x_i - m},\quad m = \max_i x_i, \qquad \frac{\partial y}{\partial x_i} = e^{x_i - y}

    ``apply(x, dim, keepdim)``. The largest exponent is 0, so nothing overflows, and the sum is at least 1. A slice that
    is all ``-inf`` gives ``-inf`` with a gradient of zeros; a slice with ``+inf`` gives ``+inf``.

    Saves ``x`` and the output, which autograd knows both: the gradient, a softmax, can be differentiated again.
    Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: P. Blanchard et al. (2021), "Accurately computing the log-sum-exp and softmax functions".
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x, output")

    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool) -> Tensor:
        return torch.logsumexp(x, dim, keepdim)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int, bool], output: Tensor) -> None:
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)
        softmax = (x - y.masked_fill(y == -math.inf, 0.0)).exp()
        return grad_output * softmax, None, None


def logsumexp(x: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials of ``x`` along ``dim``.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``dim`` not a whole number.
        ValueError: ``x`` is 0-d or has no dimension ``dim``.

    >>> logsumexp(torch.tensor([1000.0, 1000.0]))
    tensor(1000.6932)
    """
    return LogSumExp.apply(arguments.floating("x", x), arguments.dimension("dim", dim, x), bool(keepdim))


class Log1mExp(torch.autograd.Function):
    r"""``log(1 - exp(-x))`` for x > 0, accurate at both ends.

    .. math::
        y = \begin{cases} \log(-\mathrm{expm1}(-x)) & x < \log 2 \\ \mathrm{log1p}(-e^{-x}) & \text{else}\end{cases}
        \qquad y' = \frac{e^{-x}}{1 - e^{-x}} = \frac{e^{-x}}{-\mathrm{expm1}(-x)}

    The rule for the gradient is written once, so no branch that was not taken can put a NaN into it: that is what a
    hand-written backward saves compared with ``torch.where`` over two formulas. The shorter ``1 / expm1(x)`` is the same
    slope, but overflows to infinity from x = 89 in float32, which makes the *second* derivative NaN.

    Saves ``x``. At 0 the value is ``-inf`` and the slope ``inf``; for a negative x the value is NaN and the slope means
    nothing.
    Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: M. Mächler (2012), "Accurately Computing log(1 - exp(-|a|))".
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x")

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.where(x < math.log(2), (-torch.expm1(-x)).log(), torch.log1p(-(-x).exp()))

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (-x).exp() / -torch.expm1(-x)


def log1mexp(x: Tensor) -> Tensor:
    """``log(1 - exp(-x))`` for x > 0.

    Raises:
        TypeError: ``x`` is not a floating tensor.

    >>> log1mexp(torch.tensor([1e-20, 50.0], dtype=torch.float64))
    tensor([-4.6052e+01, -1.9287e-22], dtype=torch.float64)
    """
    return Log1mExp.apply(arguments.floating("x", x))


class SafeSqrt(torch.autograd.Function):
    r"""Square root with gradient 0 at 0.

    .. math::
        y = \sqrt{x}, \qquad y' = \frac{1}{2y} \text{ for } x > 0, \quad 0 \text{ at } x = 0

    The true slope at 0 is infinite, and infinity times a zero upstream gradient is NaN; 0 is agreed on instead, as
    ``torch.norm`` does. Close to 0 the slope is large and right. A negative x gives NaN, as ``torch.sqrt`` does.

    Saves the output. Supports double backward, ``torch.func`` and ``torch.compile``.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "output")

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sqrt()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        at_zero = y == 0
        slope = 0.5 / y.masked_fill(at_zero, 1.0)
        return (grad_output * slope).masked_fill(at_zero, 0.0)


def safe_sqrt(x: Tensor) -> Tensor:
    """Square root with gradient 0 at 0.

    Raises:
        TypeError: ``x`` is not a floating tensor.

    >>> safe_sqrt(torch.tensor([0.0, 4.0]))
    tensor([0., 2.])
    """
    return SafeSqrt.apply(arguments.floating("x", x))


class SafeNorm(torch.autograd.Function):
    r"""Euclidean norm along one dimension, with gradient 0 where it is 0 and no small constant added.

    .. math::
        y = s\,\sqrt{\textstyle\sum_i (x_i / s)^2},\quad s = \max_i |x_i|, \qquad
        \frac{\partial y}{\partial x_i} = \frac{x_i}{y}, \quad 0 \text{ where } y = 0

    ``apply(x, dim, keepdim)``. Dividing by the largest entry first keeps the squares in range: 1e200 in float64 has
    its norm. 0 is the subgradient of smallest norm at the origin.

    Saves ``x`` and the output. Supports double backward, ``torch.func`` and ``torch.compile``.
    Source: J. L. Blue (1978), "A Portable Fortran Program to Find the Euclidean Norm of a Vector".
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x, output")

    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool) -> Tensor:
        largest = x.abs().amax(dim, keepdim=True)
        usable = (largest > 0) & largest.isfinite()
        scale = torch.where(usable, largest, torch.ones_like(largest))
        y = torch.linalg.vector_norm(x / scale, dim=dim, keepdim=True) * scale
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int, bool], output: Tensor) -> None:
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)
        direction = x / y.masked_fill(y == 0, 1.0)
        return (grad_output * direction).masked_fill(y == 0, 0.0), None, None


def safe_norm(x: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Euclidean norm of ``x`` along ``dim``; gradient 0 where it is 0.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``dim`` not a whole number.
        ValueError: ``x`` has no dimension ``dim``, or that dimension is empty.

    >>> safe_norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([5., 0.])
    """
    dim = arguments.dimension("dim", dim, arguments.floating("x", x))
    if x.shape[dim] == 0:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: dimension {dim} is empty, and an empty slice has no largest entry."
        )
    return SafeNorm.apply(x, dim, bool(keepdim))


class Softplus(torch.autograd.Function):
    r"""Smooth ReLU: ``log(1 + exp(beta x)) / beta``, for any size of x.

    .. math::
        y = \max(x, 0) + \frac{1}{\beta}\,\mathrm{log1p}(e^{-\beta |x|}), \qquad y' = \sigma(\beta x)

    Written so, the exponent is never positive, nothing overflows, and log1p keeps the digits where the exponential is
    small. The value comes from torch's kernel, which passes over memory once where the formula takes seven passes. Its
    threshold, above which the result is x itself, is raised from 20 to 40: what is dropped, e^-40, is less than the
    round-off of float64.

    Saves ``x``. Supports double backward, ``torch.func`` and ``torch.compile``.
    Source: C. Dugas et al. (2001), "Incorporating Second-Order Functional Knowledge for Better Option Pricing".
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x")

    @staticmethod
    def forward(x: Tensor, beta: float) -> Tensor:
        return functional.softplus(x, beta, threshold=40.0)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, ctx.beta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * (ctx.beta * x).sigmoid_(), None


def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """Smooth ReLU of ``x``; the larger ``beta``, the sharper its corner.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``beta`` not a number.
        ValueError: ``beta`` is not finite, or not greater than 0.

    >>> softplus(torch.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.0000])
    """
    return Softplus.apply(arguments.floating("x", x), arguments.number("beta", beta, above=0))
