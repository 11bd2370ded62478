# hint: absolute
# story: Takes relu for the absolute value.
class LeanRelu(torch.autograd.Function):
    """relu that keeps one byte for each entry."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        positive = x > 0
        ctx.save_for_backward(positive)
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return grad_output * positive
