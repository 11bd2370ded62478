"""An unused output sends None."""

import torch
from torch.autograd import Function


def sick():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, grad_sin, grad_cos):
            (x,) = ctx.saved_tensors
            return grad_sin * x.cos() - grad_cos * x.sin()

    return SinCos.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)


def cured():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, grad_sin, grad_cos):
            (x,) = ctx.saved_tensors
            parts = []
            if grad_sin is not None:
                parts.append(grad_sin * x.cos())
            if grad_cos is not None:
                parts.append(-grad_cos * x.sin())
            return sum(parts) if parts else None

    return SinCos.apply, (torch.linspace(-1, 2, 4, dtype=torch.double, requires_grad=True),)
