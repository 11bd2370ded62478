"""An output that holds itself alive."""

import torch
from torch.autograd import Function


def sick():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x.exp()
            return ctx.y

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.y

    return Exp.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return Exp.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
