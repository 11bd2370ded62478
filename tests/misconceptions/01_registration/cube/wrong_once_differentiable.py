# hint: once-differentiable
# story: copies the decorator from a tutorial on NumPy
from torch.autograd.function import once_differentiable


class Cube(torch.autograd.Function):
    """y = x ** 3, with its own backward."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2
