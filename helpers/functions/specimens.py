"""Teaching specimens: Functions with faults, kept for what they teach. Never use them for work."""

from __future__ import annotations

import torch


class CustomHuber(torch.autograd.Function):
    """A Huber loss that passes its own gradcheck and still has three faults. A specimen for lesson 01.

    1. ``delta`` lives on the class and is read again in backward: change it in between and the gradient is
       silently wrong.
    2. ``target`` gets ``None``: a target that requires a gradient silently gets none.
    3. The residual is saved, which is neither input nor output: the second derivative is silently zero.

    ``helpers.functions.Huber`` is the same loss without them.
    """

    delta = 1.0

    @staticmethod
    def forward(ctx, x, target):
        r = x - target
        small = r.abs() <= CustomHuber.delta
        loss = torch.where(
            small,
            0.5 * r * r,
            CustomHuber.delta * (r.abs() - 0.5 * CustomHuber.delta),
        )
        ctx.save_for_backward(r)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        (r,) = ctx.saved_tensors
        grad_inner = torch.where(
            r.abs() <= CustomHuber.delta,
            r,
            torch.sign(r) * CustomHuber.delta,
        )
        return grad_output * grad_inner, None
