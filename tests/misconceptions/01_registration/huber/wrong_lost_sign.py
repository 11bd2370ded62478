# hint: lost-sign
# story: returns +delta on both sides
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
        grad = grad_output * torch.where(r.abs() <= ctx.delta, r, torch.full_like(r, ctx.delta))
        return grad, -grad, None
