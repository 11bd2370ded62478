# hint: gradient-count
# story: returns a gradient for the tensor only
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        _, ctx.factor = inputs

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * ctx.factor
