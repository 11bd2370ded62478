"""Saved tensors are not copies."""

import torch
from torch.autograd import Function


def sick():
    class Tanh(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.tanh()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return y.square_().neg_().add_(1) * grad_output

    return Tanh.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Tanh(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.tanh()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return (1 - y.square()) * grad_output

    return Tanh.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
