"""Work that the engine throws away."""

import torch
from torch.autograd import Function


def sick():
    class Multiply(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            a, b = ctx.saved_tensors
            return grad_output * b, grad_output * a

    return Multiply.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        torch.linspace(2, 1, 4, dtype=torch.double, requires_grad=True),
    )


def cured():
    class Multiply(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            a, b = ctx.saved_tensors
            needs_a, needs_b = ctx.needs_input_grad
            return grad_output * b if needs_a else None, grad_output * a if needs_b else None

    return Multiply.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        torch.linspace(2, 1, 4, dtype=torch.double, requires_grad=True),
    )
