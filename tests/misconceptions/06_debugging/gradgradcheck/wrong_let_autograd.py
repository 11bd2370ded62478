# hint: autograd-does-it
# story: Rebuilds the forward inside backward and lets autograd differentiate it.
class Quartic(torch.autograd.Function):
    """y = x ** 4, differentiable as often as you like."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x * x) ** 2

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x**4
        return torch.autograd.grad(y, x, grad_output, create_graph=True)[0]
