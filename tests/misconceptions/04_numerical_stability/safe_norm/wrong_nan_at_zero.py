# hint: nan-at-zero
# story: Divides by the norm, also where it is 0.
class SafeNorm(torch.autograd.Function):
    """The Euclidean norm along one dimension, with gradient 0 where it is 0."""

    @staticmethod
    def forward(x: Tensor, dim: int) -> Tensor:
        largest = x.abs().amax(dim, keepdim=True)
        scale = torch.where(largest > 0, largest, torch.ones_like(largest))
        return (scale * (x / scale).square().sum(dim, keepdim=True).sqrt()).squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int], output: Tensor) -> None:
        x, ctx.dim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        y = y.unsqueeze(ctx.dim)
        direction = x / y
        return grad_output.unsqueeze(ctx.dim) * direction, None
