"""A right gradient in single precision."""

import torch
from torch.autograd import Function


def sick():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Square.apply, (torch.tensor([0.5, 1.2, -0.8], requires_grad=True),)
