"""Wrong on purpose, and said so."""

import torch
from torch.autograd import Function

from ...functions.contract import Surrogate


def sick():
    class Round(Function):
        surrogate = Surrogate("grad_input = grad_output", lambda grads, x: (grads[0],))

        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Round.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
