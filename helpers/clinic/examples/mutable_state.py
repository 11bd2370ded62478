"""A setting that backward reads again."""

import torch
from torch.autograd import Function


def sick():
    class Clip(Function):
        limit = 0.5

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.where(x < Clip.limit, x, Clip.limit * x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return torch.where(x < Clip.limit, grad_output, Clip.limit * grad_output)

    return Clip.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Clip(Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.save_for_backward(x)
            ctx.limit = limit
            return torch.where(x < limit, x, limit * x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return torch.where(x < ctx.limit, grad_output, ctx.limit * grad_output), None

    return Clip.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        0.5,
    )
