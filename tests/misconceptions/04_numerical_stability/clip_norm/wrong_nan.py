# hint: nan-at-zero
# story: Takes the minimum of 1 and max_norm / norm, and forgets that both can be infinite.
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
        unit = grad_output / norm
        return unit * torch.minimum(norm, torch.full_like(norm, ctx.max_norm)), None
