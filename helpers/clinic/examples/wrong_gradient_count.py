"""One gradient per argument."""

import torch
from torch.autograd import Function


def sick():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return factor * x

        @staticmethod
        def backward(ctx, grad_output):
            return ctx.factor * grad_output

    return Scale.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        3.0,
    )


def cured():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return factor * x

        @staticmethod
        def backward(ctx, grad_output):
            return ctx.factor * grad_output, None

    return Scale.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        3.0,
    )
