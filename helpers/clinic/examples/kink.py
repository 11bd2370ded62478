"""A corner at the sample point."""

import torch
from torch.autograd import Function


def sick():
    class Relu(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * (x > 0)

    return Relu.apply, (torch.tensor([-1.0, 0.0, 2.0], dtype=torch.double, requires_grad=True),)
