"""What is neither input nor output is a constant."""

import torch
from torch.autograd import Function


def sick():
    class Quartic(Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(x, square)
            return square * square

        @staticmethod
        def backward(ctx, grad_output):
            x, square = ctx.saved_tensors
            return grad_output * 4 * x * square

    return Quartic.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Quartic(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**4

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * 4 * x**3

    return Quartic.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
