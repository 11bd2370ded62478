# hint: saves-a-number
# story: saves everything with save_for_backward
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return grad_output * factor, None
