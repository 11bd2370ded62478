# hint: overflows
# story: Takes exp of what comes.
class Softmax(torch.autograd.Function):
    """Softmax of each row."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        e = x.exp()
        return e / e.sum(1, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(1, keepdim=True))
