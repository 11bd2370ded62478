class LogSumExp(torch.autograd.Function):
    """The logarithm of a sum of exponentials along one dimension."""

    @staticmethod
    def forward(x: Tensor, dim: int) -> Tensor:
        largest = x.amax(dim, keepdim=True)
        shift = torch.where(largest.isfinite(), largest, torch.zeros_like(largest))
        return ((x - shift).exp().sum(dim, keepdim=True).log() + shift).squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int], output: Tensor) -> None:
        x, ctx.dim = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        y = x.logsumexp(ctx.dim, keepdim=True)
        empty = y == -math.inf
        softmax = (x - torch.where(empty, torch.zeros_like(y), y)).exp()
        return grad_output.unsqueeze(ctx.dim) * softmax, None
