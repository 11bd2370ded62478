# hint: state-on-class
# story: follows the article: delta is an attribute of the class
class Huber(torch.autograd.Function):
    """Huber loss of each residual x - target, quadratic up to delta, linear beyond."""

    @staticmethod
    def forward(ctx, x: Tensor, target: Tensor, delta: float) -> Tensor:
        Huber.delta = delta
        ctx.save_for_backward(x, target)
        size = (x - target).abs()
        return torch.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, target = ctx.saved_tensors
        grad = grad_output * (x - target).clamp(-Huber.delta, Huber.delta)
        return grad, -grad, None
