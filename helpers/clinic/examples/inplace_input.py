"""Overwriting what belongs to the caller."""

import torch
from torch.autograd import Function


def sick():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            x.exp_()
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return Exp.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            x.exp_()
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return Exp.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
