"""Memory need not be in order."""

import torch
from torch.autograd import Function


def sick():
    class Triple(Function):
        @staticmethod
        def forward(ctx, x):
            return 3 * x

        @staticmethod
        def backward(ctx, grad_output):
            return (3 * grad_output.view(-1)).view(grad_output.shape)

    return Triple.apply, (torch.arange(6, dtype=torch.double).reshape(2, 3).requires_grad_(),)


def cured():
    class Triple(Function):
        @staticmethod
        def forward(ctx, x):
            return 3 * x

        @staticmethod
        def backward(ctx, grad_output):
            return (3 * grad_output.reshape(-1)).reshape(grad_output.shape)

    return Triple.apply, (torch.arange(6, dtype=torch.double).reshape(2, 3).requires_grad_(),)
