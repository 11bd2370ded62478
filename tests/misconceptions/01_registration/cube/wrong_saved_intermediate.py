# hint: saved-intermediate
# story: computes the local derivative ahead, while x is at hand
class Cube(torch.autograd.Function):
    """y = x ** 3, with its own backward."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(3 * x**2)
        return x**3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (local,) = ctx.saved_tensors
        return grad_output * local
