# hint: sigmoid-alone
# story: Forgets the factor x.
class Swish(torch.autograd.Function):
    """y = x * sigmoid(x)."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sigmoid()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        sigmoid = x.sigmoid()
        return grad_output * (sigmoid + x * sigmoid * (1 - sigmoid))
