"""Static methods."""

import torch
from torch.autograd import Function


def sick():
    class Double(Function):
        def forward(self, x):
            return 2 * x

        def backward(self, grad_output):
            return 2 * grad_output

    return Double.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    return Double.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
