# hint: not-in-place
# story: Multiplies into a new tensor.
class ScaleInPlace(torch.autograd.Function):
    """x *= factor, declared."""

    @staticmethod
    def forward(ctx, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * grad_output, None
