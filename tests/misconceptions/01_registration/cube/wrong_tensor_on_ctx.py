# hint: tensor-on-ctx
# story: takes ctx for a dictionary where anything may be kept
class Cube(torch.autograd.Function):
    """y = x ** 3, with its own backward."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        (ctx.x,) = inputs

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * 3 * ctx.x**2
