# hint: forgot-upstream
# story: returns the local derivative as the number it is
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
        return ctx.factor, None
