# hint: never-saved
# story: Forgets to save.
class Exp(torch.autograd.Function):
    """y = exp(x), differentiable as often as you like."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output * y
