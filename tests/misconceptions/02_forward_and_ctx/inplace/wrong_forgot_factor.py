# hint: forgot-the-factor
# story: Passes the gradient on.
class ScaleInPlace(torch.autograd.Function):
    """x *= factor, declared."""

    @staticmethod
    def forward(ctx, x: Tensor, factor: float) -> Tensor:
        ctx.mark_dirty(x)
        ctx.factor = factor
        return x.mul_(factor)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output, None
