"""The clock has no place in a gradient."""

import time

import torch
from torch.autograd import Function


def sick():
    class Noisy(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * (2 + 1e-6 * (time.perf_counter_ns() % 997))

    return Noisy.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class Steady(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    return Steady.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
