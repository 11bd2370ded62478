"""None means zero."""

import torch
from torch.autograd import Function


def sick():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x, scale)
            return scale * x

        @staticmethod
        def backward(ctx, grad_output):
            _, scale = ctx.saved_tensors
            return scale * grad_output, None

    return Scale.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        torch.tensor(0.5, dtype=torch.double, requires_grad=True),
    )


def cured():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x, scale)
            return scale * x

        @staticmethod
        def backward(ctx, grad_output):
            x, scale = ctx.saved_tensors
            needs_x, needs_scale = ctx.needs_input_grad
            grad_x = scale * grad_output if needs_x else None
            grad_scale = (x * grad_output).sum() if needs_scale else None
            return grad_x, grad_scale

    return Scale.apply, (
        torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),
        torch.tensor(0.5, dtype=torch.double, requires_grad=True),
    )
