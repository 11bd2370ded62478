"""Functions that leave the value alone and change the gradient that passes.

Each departs from the true derivative on purpose. ``surrogate`` declares it, with the rule in words and as code, and
tests, the clinic and the lessons hold the backward against that rule: ``gradcheck`` must fail on them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import arguments
from .contract import Support, Surrogate

FLOATS = (torch.bfloat16, torch.float32, torch.float64)
NOTHING = Support(True, True, False, True, FLOATS, "nothing")


class StopGradient(torch.autograd.Function):
    """The value of ``x``; a gradient of zeros.

    Unlike ``x.detach()`` the edge stays: the output requires a gradient, and ``x`` receives a tensor of zeros where
    ``detach`` leaves ``None``. Optimisers with weight decay or momentum treat the two differently.

    Saves nothing. Supports double backward, ``torch.func`` and ``torch.compile``.
    Source: X. Chen and K. He (2021), "Exploring Simple Siamese Representation Learning", arXiv:2011.10566.
    """

    generate_vmap_rule = True
    support = NOTHING
    surrogate = Surrogate("grad_input = 0", lambda grads, x: (torch.zeros_like(grads[0]),))

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return torch.zeros_like(grad_output)


def stop_gradient(x: Tensor) -> Tensor:
    """The value of ``x`` with a gradient of zeros; see ``StopGradient``.

    Raises:
        TypeError: ``x`` is not a floating tensor.
    """
    return StopGradient.apply(arguments.floating("x", x))


class ScaleGradient(torch.autograd.Function):
    """The value of ``x``; the gradient times ``scale``.

    ``apply(x, scale)`` with a number ``scale``. Saves nothing; the number travels on ``ctx``.
    Supports double backward, ``torch.func`` and ``torch.compile``.
    """

    generate_vmap_rule = True
    support = NOTHING
    surrogate = Surrogate(
        "grad_input = scale * grad_output", lambda grads, x, scale: (scale * grads[0], None)
    )

    @staticmethod
    def forward(x: Tensor, scale: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return ctx.scale * grad_output, None


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """The value of ``x`` with its gradient times ``scale``.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``scale`` not a number.
        ValueError: ``scale`` is not finite.
    """
    return ScaleGradient.apply(arguments.floating("x", x), arguments.number("scale", scale))


class ReverseGradient(torch.autograd.Function):
    """The value of ``x``; the gradient times ``-scale``.

    Between features and a domain classifier it makes the classifier learn while the features unlearn the domain.
    Saves nothing. Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: Y. Ganin and V. Lempitsky (2015), "Unsupervised Domain Adaptation by Backpropagation", arXiv:1409.7495.
    """

    generate_vmap_rule = True
    support = NOTHING
    surrogate = Surrogate(
        "grad_input = -scale * grad_output", lambda grads, x, scale: (-scale * grads[0], None)
    )

    @staticmethod
    def forward(x: Tensor, scale: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return -ctx.scale * grad_output, None


def reverse_gradient(x: Tensor, scale: float = 1.0) -> Tensor:
    """The value of ``x`` with its gradient reversed and scaled.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``scale`` not a number.
        ValueError: ``scale`` is not finite, or negative (that would not reverse).
    """
    return ReverseGradient.apply(arguments.floating("x", x), arguments.number("scale", scale, least=0))


class ClipGradientValue(torch.autograd.Function):
    """The value of ``x``; each entry of the gradient clamped to ``[-limit, limit]``.

    Clamping entries one by one turns the gradient: the direction changes. A NaN stays a NaN.
    Saves nothing. Supports double backward (the clamp is differentiable almost everywhere), ``torch.func.vmap`` and
    ``torch.compile``.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "nothing")
    surrogate = Surrogate(
        "grad_input = clamp(grad_output, -limit, limit)",
        lambda grads, x, limit: (grads[0].clamp(-limit, limit), None),
    )

    @staticmethod
    def forward(x: Tensor, limit: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.limit = inputs[1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output.clamp(-ctx.limit, ctx.limit), None


def clip_gradient_value(x: Tensor, limit: float) -> Tensor:
    """The value of ``x`` with each entry of its gradient clamped to ``[-limit, limit]``.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``limit`` not a number.
        ValueError: ``limit`` is not finite, or not greater than 0.
    """
    return ClipGradientValue.apply(arguments.floating("x", x), arguments.number("limit", limit, above=0))


def _shortened(gradient: Tensor, max_norm: float) -> Tensor:
    if gradient.numel() == 0:
        return gradient
    largest = gradient.abs().amax()
    scale = torch.where(largest > 0, largest, 1.0)  # keeps the squares in range: 1e25 in float32 has its norm
    norm = torch.linalg.vector_norm(gradient / scale)
    return gradient * (max_norm / scale / norm.clamp(min=1.0)).clamp(max=1.0)


class ClipGradientNorm(torch.autograd.Function):
    """The value of ``x``; a gradient longer than ``max_norm`` shortened to it, its direction kept.

    The norm is over all entries of the gradient that passes here; ``torch.nn.utils.clip_grad_norm_`` measures all
    parameters together, after backward. A zero gradient stays zero; one with a NaN or an infinity has no direction, and
    all of it becomes NaN.
    Saves nothing. Supports double backward, ``torch.func.vmap`` (each example by itself) and ``torch.compile``.

    Source: R. Pascanu et al. (2013), "On the difficulty of training recurrent neural networks", arXiv:1211.5063.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "nothing")
    surrogate = Surrogate(
        "grad_input = grad_output * min(1, max_norm / |grad_output|)",
        lambda grads, x, max_norm: (_shortened(grads[0], max_norm), None),
    )

    @staticmethod
    def forward(x: Tensor, max_norm: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.max_norm = inputs[1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return _shortened(grad_output, ctx.max_norm), None


def clip_gradient_norm(x: Tensor, max_norm: float) -> Tensor:
    """The value of ``x`` with its gradient shortened to ``max_norm`` where it is longer.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``max_norm`` not a number.
        ValueError: ``max_norm`` is not finite, or not greater than 0.
    """
    return ClipGradientNorm.apply(arguments.floating("x", x), arguments.number("max_norm", max_norm, above=0))


class StraightThroughRound(torch.autograd.Function):
    """``round(x)``; the gradient passes as if nothing had been rounded.

    The true derivative of a staircase is zero, and nothing before it could learn. Halves go to the even neighbour, as
    in ``torch.round``. Saves nothing. Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: Y. Bengio et al. (2013), "Estimating or Propagating Gradients Through Stochastic Neurons", arXiv:1308.3432.
    """

    generate_vmap_rule = True
    support = NOTHING
    surrogate = Surrogate("grad_input = grad_output", lambda grads, x: (grads[0],))

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output


def straight_through_round(x: Tensor) -> Tensor:
    """``round(x)`` with the gradient of the identity.

    Raises:
        TypeError: ``x`` is not a floating tensor.

    >>> straight_through_round(torch.tensor([0.4, 0.6]))
    tensor([0., 1.])
    """
    return StraightThroughRound.apply(arguments.floating("x", x))


def _bell(x: Tensor, sharpness: float) -> Tensor:
    return (1 + (sharpness * x).abs()).square().reciprocal()


class SurrogateStep(torch.autograd.Function):
    r"""The step function of a spiking neuron; backward uses the slope of a smooth stand-in.

    .. math::
        y = [x > 0], \qquad \text{grad\_input} = \frac{\text{grad\_output}}{(1 + k\,|x|)^2}

    ``apply(x, sharpness)`` with a number k. Saves ``x``. Supports double backward of the rule, ``torch.func`` and
    ``torch.compile``.

    Source: F. Zenke and S. Ganguli (2018), "SuperSpike", arXiv:1705.11146.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "x")
    surrogate = Surrogate(
        "grad_input = grad_output / (1 + sharpness * |x|)^2",
        lambda grads, x, sharpness: (grads[0] * _bell(x, sharpness), None),
    )

    @staticmethod
    def forward(x: Tensor, sharpness: float) -> Tensor:
        return (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, ctx.sharpness = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * _bell(x, ctx.sharpness), None


def surrogate_step(x: Tensor, sharpness: float = 10.0) -> Tensor:
    """1 where ``x > 0``, else 0, with a smooth gradient; the larger ``sharpness``, the narrower.

    Raises:
        TypeError: ``x`` is not a floating tensor, or ``sharpness`` not a number.
        ValueError: ``sharpness`` is not finite, or not greater than 0.

    >>> surrogate_step(torch.tensor([-0.5, 0.5]))
    tensor([0., 1.])
    """
    return SurrogateStep.apply(arguments.floating("x", x), arguments.number("sharpness", sharpness, above=0))
