# hint: factor-not-an-argument
# story: keeps the factor at its old place, the class, and forgets the argument
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    factor = 2.5

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * Scale.factor

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * Scale.factor
