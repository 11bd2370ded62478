# hint: saved-the-output
# story: saves the result, because it is at hand at the end of forward
class Cube(torch.autograd.Function):
    """y = x ** 3, with its own backward."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output * 3 * y**2
