"""Losses with gradients of their own: Huber, quantile, focal and contrastive."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import hardtanh_, huber_loss, logsigmoid

from . import arguments
from .contract import Support

FLOATS = (torch.float32, torch.float64)


class Huber(torch.autograd.Function):
    r"""Huber loss of each element: quadratic for a small residual, linear for a large one.

    .. math::
        r = input - target, \qquad
        \ell(r) = \begin{cases} r^2/2 & |r| \le \delta \\ \delta(|r| - \delta/2) & |r| > \delta \end{cases}
        \qquad \ell'(r) = \mathrm{clamp}(r, -\delta, \delta)

    ``apply(input, target, delta)``: two tensors of one shape and dtype, and a number; the loss has their shape. The value
    comes from torch's kernel, which passes over memory once; ``(r - c/2) c`` with the clamped residual c is the same in
    four passes.

    Saves ``input`` and ``target``, not the residual: what is neither input nor output is a constant to a second
    derivative, and would make it silently wrong. ``delta`` travels on ``ctx``, so a later call cannot change it.

    Supports double backward, ``torch.func`` (grad, vmap, jacrev) and ``torch.compile``.

    Source: P. J. Huber (1964), "Robust Estimation of a Location Parameter"; ``torch.nn.HuberLoss``.
    """

    support = Support(True, True, False, True, FLOATS, "input, target")

    @staticmethod
    def forward(input: Tensor, target: Tensor, delta: float) -> Tensor:
        return huber_loss(input, target, reduction="none", delta=delta)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        input, target, ctx.delta = inputs
        ctx.save_for_backward(input, target)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        input, target = ctx.saved_tensors
        slope = hardtanh_(input - target, -ctx.delta, ctx.delta)  # a clamp in place that vmap knows
        grad = grad_output * slope
        needs_input, needs_target, _ = ctx.needs_input_grad
        return grad if needs_input else None, -grad if needs_target else None, None

    @staticmethod
    def vmap(
        info, in_dims: tuple[int | None, int | None, None], input: Tensor, target: Tensor, delta: float
    ) -> tuple[Tensor, int]:
        input, target = (  # torch's kernel wants both to have the batch
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((input, target), in_dims[:2], strict=True)
        )
        return Huber.apply(input, target, delta), 0


def huber(input: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """Huber loss of each element, with gradients for ``input`` and ``target``.

    Args:
        input, target: tensors of one floating dtype; their shapes broadcast.
        delta: residual at which the loss turns from quadratic to linear; greater than 0.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> huber(torch.tensor([0.5, 3.0]), torch.tensor(0.0))
    tensor([0.1250, 2.5000])
    """
    arguments.same_kind(input=input, target=target)
    shape = arguments.broadcastable(input=input, target=target)
    delta = arguments.number("delta", delta, above=0)
    return Huber.apply(input.expand(shape), target.expand(shape), delta)


class Quantile(torch.autograd.Function):
    r"""Quantile (pinball) loss of each element: too little and too much are weighed differently.

    .. math::
        r = target - input, \qquad \ell = \max(q\,r,\ (q-1)\,r), \qquad
        \frac{\partial \ell}{\partial target} = q\,[r > 0] + (q-1)\,[r < 0] = -\frac{\partial \ell}{\partial input}

    ``apply(input, target, q)``: two tensors of one shape and dtype, and a number in (0, 1). At the kink, r = 0, the
    gradient is 0. Its minimiser over a sample is the sample's q-quantile.

    Saves ``input`` and ``target``. The second derivative is zero wherever it exists, and is given as zero.
    Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: R. Koenker and G. Bassett (1978), "Regression Quantiles".
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "input, target")

    @staticmethod
    def forward(input: Tensor, target: Tensor, q: float) -> Tensor:
        residual = target - input
        return torch.maximum(q * residual, (q - 1) * residual)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        input, target, ctx.q = inputs
        ctx.save_for_backward(input, target)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        input, target = ctx.saved_tensors
        sign = (target - input).sign()
        slope = (ctx.q - 0.5) * sign.abs() + 0.5 * sign
        needs_input, needs_target, _ = ctx.needs_input_grad
        return (
            -grad_output * slope if needs_input else None,
            grad_output * slope if needs_target else None,
            None,
        )


def quantile(input: Tensor, target: Tensor, q: float = 0.5) -> Tensor:
    """Quantile loss of each element, with gradients for ``input`` and ``target``.

    Args:
        input, target: tensors of one floating dtype; their shapes broadcast.
        q: the quantile that the loss seeks, between 0 and 1.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> quantile(torch.tensor([1.0, 3.0]), torch.tensor(2.0), q=0.75)
    tensor([0.7500, 0.2500])
    """
    arguments.same_kind(input=input, target=target)
    shape = arguments.broadcastable(input=input, target=target)
    q = arguments.number("q", q, above=0, below=1)
    return Quantile.apply(input.expand(shape), target.expand(shape), q)


class Focal(torch.autograd.Function):
    r"""Binary focal loss of each logit: what is already right counts less.

    With :math:`z = (2t - 1)\,x` (t the 0/1 target), the probability of the right class is :math:`p = \sigma(z)`:

    .. math::
        \ell = (1-p)^\gamma\,(-\log p), \qquad
        \frac{\partial \ell}{\partial z} = -(1-p)^\gamma\,\bigl((1-p) - \gamma\,p\,\log p\bigr)

    ``apply(logits, target, gamma)``: tensors of one shape and dtype, and a number. ``log p`` is ``logsigmoid(z)`` and
    ``(1-p)^γ`` is ``exp(γ logsigmoid(-z))``, so neither end overflows: the loss of a logit of 1000 is 0 or 1000.

    Saves ``logits`` and ``target``; backward is written in differentiable operators of the two.
    Supports double backward, ``torch.func`` and ``torch.compile``. The target gets no gradient: it is a label.

    Source: T.-Y. Lin et al. (2017), "Focal Loss for Dense Object Detection", arXiv:1708.02002.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "logits, target")

    @staticmethod
    def forward(logits: Tensor, target: Tensor, gamma: float) -> Tensor:
        z = (2 * target - 1) * logits
        return -torch.exp(gamma * logsigmoid(-z)) * logsigmoid(z)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        logits, target, ctx.gamma = inputs
        ctx.save_for_backward(logits, target)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        logits, target = ctx.saved_tensors
        side = 2 * target - 1
        z = side * logits
        weight = torch.exp(ctx.gamma * logsigmoid(-z))
        slope = -weight * (torch.sigmoid(-z) - ctx.gamma * torch.sigmoid(z) * logsigmoid(z))
        return grad_output * side * slope, None, None


def focal(logits: Tensor, target: Tensor, gamma: float = 2.0) -> Tensor:
    """Binary focal loss of each logit, stable at both ends.

    Args:
        logits: floating tensor.
        target: labels 0 or 1, of a shape that broadcasts with ``logits``; converted to its dtype. Nothing between 0
            and 1 has a meaning here, and the numbers are not looked at.
        gamma: how much an easy example is discounted; at least 0, and 0 gives the cross entropy.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> focal(torch.tensor([0.0, 1000.0]), torch.tensor([1, 0]))
    tensor([1.7329e-01, 1.0000e+03])
    """
    arguments.floating("logits", logits)
    if not isinstance(target, Tensor):
        raise TypeError(f"target must be a tensor, not {type(target).__name__}.")
    if target.is_complex():
        raise TypeError(f"target has dtype {target.dtype}; labels are real numbers, 0 or 1.")
    if target.device != logits.device:
        raise ValueError(
            f"target is on {target.device}, logits on {logits.device}; move one of them with .to(device)."
        )
    gamma = arguments.number("gamma", gamma, least=0)
    shape = arguments.broadcastable(logits=logits, target=target)
    return Focal.apply(logits.expand(shape), target.detach().to(logits.dtype).expand(shape), gamma)


class Contrastive(torch.autograd.Function):
    r"""InfoNCE: each row of one batch should be nearest to its partner in the other.

    With unit rows :math:`\hat a_i, \hat b_j` and similarities :math:`s_{ij} = \hat a_i \cdot \hat b_j / \tau`,

    .. math::
        \ell = \frac1n \sum_i \bigl(\log \textstyle\sum_j e^{s_{ij}} - s_{ii}\bigr), \qquad
        \frac{\partial \ell}{\partial s} = \frac1n\,(\mathrm{softmax}(s) - I)

    ``apply(a, b, temperature)`` for ``a`` and ``b`` of shape (n, d) with unit rows; the loss is 0-d. The log-sum-exp
    subtracts the largest similarity first, so a small temperature does not overflow.

    Saves ``a`` and ``b`` only and computes the n × n similarities again: the square matrix is not kept.
    Supports double backward, ``torch.func`` and ``torch.compile``.

    Source: A. van den Oord et al. (2018), "Representation Learning with Contrastive Predictive Coding", arXiv:1807.03748.
    """

    generate_vmap_rule = True
    support = Support(True, True, False, True, FLOATS, "a, b")

    @staticmethod
    def forward(a: Tensor, b: Tensor, temperature: float) -> Tensor:
        similarity = a @ b.mT / temperature
        return (similarity.logsumexp(1) - similarity.diagonal()).mean()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        a, b, ctx.temperature = inputs
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        a, b = ctx.saved_tensors
        probabilities = (a @ b.mT / ctx.temperature).softmax(1)
        partners = torch.eye(len(a), dtype=a.dtype, device=a.device)
        grad = grad_output * (probabilities - partners) / (len(a) * ctx.temperature)
        needs_a, needs_b, _ = ctx.needs_input_grad
        return grad @ b if needs_a else None, grad.mT @ a if needs_b else None, None


def contrastive(a: Tensor, b: Tensor, temperature: float = 0.1) -> Tensor:
    """InfoNCE loss of two batches of embeddings; row i of ``a`` belongs to row i of ``b``.

    Args:
        a, b: shape (n, d), one floating dtype; rows are brought to unit length here.
        temperature: divides the similarities; greater than 0.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> contrastive(torch.eye(2), torch.eye(2), temperature=1.0)
    tensor(0.3133)
    """
    arguments.same_kind(a=a, b=b)
    temperature = arguments.number("temperature", temperature, above=0)
    if a.dim() != 2 or a.shape != b.shape or len(a) == 0:
        raise ValueError(
            f"a and b must have one shape (n, d) with n at least 1, not {tuple(a.shape)} and {tuple(b.shape)}."
        )
    unit_a, unit_b = (torch.nn.functional.normalize(each, dim=1) for each in (a, b))
    return Contrastive.apply(unit_a, unit_b, temperature)
