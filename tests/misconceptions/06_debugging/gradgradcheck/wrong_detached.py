# hint: saved-intermediate
# story: Detaches a factor, so as not to build a graph twice.
class Quartic(torch.autograd.Function):
    """y = x ** 4, differentiable as often as you like."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x * x) ** 2

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 4 * x * (x * x).detach()
