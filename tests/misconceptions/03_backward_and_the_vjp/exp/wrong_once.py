# hint: constant-output
# story: Refuses the second derivative that the task asks for.
from torch.autograd.function import once_differentiable


class Exp(torch.autograd.Function):
    """y = exp(x), differentiable as often as you like."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output * y
