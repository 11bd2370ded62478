# hint: wrong-at-border
# story: takes the sign as r / |r|, which is 0 / 0 at zero
class Huber(torch.autograd.Function):
    """Huber loss of each residual x - target, quadratic up to delta, linear beyond."""

    @staticmethod
    def forward(x: Tensor, target: Tensor, delta: float) -> Tensor:
        size = (x - target).abs()
        return torch.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        x, target, ctx.delta = inputs
        ctx.save_for_backward(x, target)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, target = ctx.saved_tensors
        r = x - target
        grad = grad_output * r / r.abs() * r.abs().clamp(max=ctx.delta)
        return grad, -grad, None
