"""grad_output is not yours."""

import torch
from torch.autograd import Function


def sick():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.mul_(2)

    return Double.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

    return Double.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
