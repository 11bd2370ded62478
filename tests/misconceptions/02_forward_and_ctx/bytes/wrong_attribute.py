# hint: tensor-on-ctx
# story: Keeps the mask as an attribute.
class LeanRelu(torch.autograd.Function):
    """relu that keeps one byte for each entry."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        positive = x > 0
        ctx.positive = positive
        return x * positive

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * ctx.positive
