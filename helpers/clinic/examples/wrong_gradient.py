"""The formula is not the derivative."""

import torch
from torch.autograd import Function


def sick():
    class Softmax(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.softmax(-1)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y * (1 - y)

    return Softmax.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Softmax(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.softmax(-1)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))

    return Softmax.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
