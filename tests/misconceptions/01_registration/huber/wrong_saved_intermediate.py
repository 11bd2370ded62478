# hint: saved-intermediate
# story: follows the article: saves the residual
class Huber(torch.autograd.Function):
    """Huber loss of each residual x - target, quadratic up to delta, linear beyond."""

    @staticmethod
    def forward(ctx, x: Tensor, target: Tensor, delta: float) -> Tensor:
        residual = x - target
        ctx.save_for_backward(residual)
        ctx.delta = delta
        size = residual.abs()
        return torch.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        (residual,) = ctx.saved_tensors
        grad = grad_output * residual.clamp(-ctx.delta, ctx.delta)
        return grad, -grad, None
