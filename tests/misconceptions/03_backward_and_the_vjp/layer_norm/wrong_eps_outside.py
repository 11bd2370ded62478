# hint: eps-outside
# story: Adds eps to the standard deviation.
class LayerNorm(torch.autograd.Function):
    """Layer norm of each row."""

    @staticmethod
    def normalise(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        centred = x - x.mean(1, keepdim=True)
        scale = 1 / ((centred**2).mean(1, keepdim=True).sqrt() + eps)
        return centred * scale, scale

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        return LayerNorm.normalise(x, eps)[0] * weight + bias

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor, float], output: Tensor) -> None:
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        normed, scale = LayerNorm.normalise(x, ctx.eps)
        g = grad_output * weight
        grad_x = scale * (g - g.mean(1, keepdim=True) - normed * (g * normed).mean(1, keepdim=True))
        return grad_x, (grad_output * normed).sum(0), grad_output.sum(0), None
