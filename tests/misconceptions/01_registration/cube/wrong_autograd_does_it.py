# hint: autograd-does-it
# story: lets autograd differentiate inside backward
class Cube(torch.autograd.Function):
    """y = x ** 3, with its own backward."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = x**3
        return torch.autograd.grad(y, x, grad_output)[0]
