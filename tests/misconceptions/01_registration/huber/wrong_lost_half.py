# hint: lost-half
# story: forgets the half of the squared branch
class Huber(torch.autograd.Function):
    """Huber loss of each residual x - target, quadratic up to delta, linear beyond."""

    @staticmethod
    def forward(x: Tensor, target: Tensor, delta: float) -> Tensor:
        size = (x - target).abs()
        return torch.where(size <= delta, size**2, delta * (size - 0.5 * delta))

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        x, target, ctx.delta = inputs
        ctx.save_for_backward(x, target)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, target = ctx.saved_tensors
        grad = grad_output * (x - target).clamp(-ctx.delta, ctx.delta)
        return grad, -grad, None
