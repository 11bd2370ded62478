# hint: never-saved
# story: Asks for what was never saved.
class LeanRelu(torch.autograd.Function):
    """relu that keeps one byte for each entry."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        positive = x > 0
        return x * positive

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return grad_output * positive
