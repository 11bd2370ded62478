# hint: reduced
# story: Returns the mean, as losses do.
class Quantile(torch.autograd.Function):
    """The quantile loss of each element, with gradients for input and target."""

    @staticmethod
    def forward(input: Tensor, target: Tensor, q: float) -> Tensor:
        residual = target - input
        return torch.maximum(q * residual, (q - 1) * residual).mean()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        input, target, ctx.q = inputs
        ctx.save_for_backward(input, target)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        input, target = ctx.saved_tensors
        residual = target - input
        slope = ctx.q * (residual > 0) + (ctx.q - 1) * (residual < 0)
        grad_target = grad_output * slope
        return -grad_target, grad_target, None
