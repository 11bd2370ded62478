"""Half of the digits gone."""

import torch
from torch.autograd import Function


def sick():
    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            slope = torch.empty(x.shape, dtype=torch.float32).copy_(x.cos())
            return slope * grad_output.float()

    return Sine.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            slope = torch.empty_like(x).copy_(x.cos())
            return slope * grad_output

    return Sine.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
