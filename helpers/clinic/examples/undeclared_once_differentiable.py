"""NumPy ends the graph."""

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def sick():
    class Sinh(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sinh()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            slope = np.cosh(x.detach().numpy())
            return torch.from_numpy(grad_output.detach().numpy() * slope)

    return Sinh.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Sinh(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sinh()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            slope = np.cosh(x.numpy())
            return torch.from_numpy(grad_output.numpy() * slope)

    return Sinh.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
