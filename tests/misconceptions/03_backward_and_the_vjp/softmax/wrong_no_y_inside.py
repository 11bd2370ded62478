# hint: forgot-y-inside
# story: Sums the upstream gradient itself.
class Softmax(torch.autograd.Function):
    """Softmax of each row."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        e = (x - x.amax(1, keepdim=True)).exp()
        return e / e.sum(1, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return y * (grad_output - grad_output.sum(1, keepdim=True))
