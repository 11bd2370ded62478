# hint: assumes-contiguous
# story: Flattens grad_output with view.
class Exp(torch.autograd.Function):
    """y = exp(x), differentiable as often as you like."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return (grad_output.view(-1) * y.view(-1)).view(y.shape)
