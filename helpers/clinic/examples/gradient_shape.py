"""The gradient has its input's shape."""

import torch
from torch.autograd import Function


def sick():
    class Total(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.sum(0)

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output[:1] - grad_output[:1]

    return Total.apply, (torch.arange(6, dtype=torch.double).reshape(2, 3).requires_grad_(),)


def cured():
    class Total(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.sum(0)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.expand(ctx.shape)

    return Total.apply, (torch.arange(6, dtype=torch.double).reshape(2, 3).requires_grad_(),)
