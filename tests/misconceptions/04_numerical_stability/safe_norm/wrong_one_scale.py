# hint: one-scale-for-all
# story: Divides by the largest entry of the whole tensor.
class SafeNorm(torch.autograd.Function):
    """The Euclidean norm along one dimension, with gradient 0 where it is 0."""

    @staticmethod
    def forward(x: Tensor, dim: int) -> Tensor:
        largest = x.abs().max()
        scale = largest if largest > 0 else torch.ones_like(largest)
        return scale * (x / scale).norm(dim=dim)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int], output: Tensor) -> None:
        x, ctx.dim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        y = y.unsqueeze(ctx.dim)
        direction = x / torch.where(y > 0, y, torch.ones_like(y))
        return grad_output.unsqueeze(ctx.dim) * direction, None
