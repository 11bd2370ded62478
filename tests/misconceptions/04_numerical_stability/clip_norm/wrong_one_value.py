# hint: wrong-count
# story: Returns one value for two arguments.
class ClipGradientNorm(torch.autograd.Function):
    """y = x; a gradient longer than max_norm is shortened to it."""

    @staticmethod
    def forward(x: Tensor, max_norm: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.max_norm = inputs[1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        norm = grad_output.norm()
        if norm <= ctx.max_norm:
            return grad_output
        return grad_output * (ctx.max_norm / norm)
