"""Forward runs without a graph."""

import torch
from torch.autograd import Function


def sick():
    class Force(Function):
        @staticmethod
        def forward(ctx, x):
            energy = (x**3).sum()
            (force,) = torch.autograd.grad(energy, x)
            ctx.save_for_backward(x)
            return force

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 6 * x * grad_output

    return Force.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Force(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                (force,) = torch.autograd.grad((y**3).sum(), y)
            ctx.save_for_backward(x)
            return force

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 6 * x * grad_output

    return Force.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
