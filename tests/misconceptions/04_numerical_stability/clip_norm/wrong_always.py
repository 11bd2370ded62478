# hint: always-rescales
# story: Rescales whatever comes.
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
        return grad_output * (ctx.max_norm / (grad_output.norm() + 1e-12)), None
