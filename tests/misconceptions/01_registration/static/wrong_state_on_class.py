# hint: state-on-class
# story: puts the factor where self.factor was: on the class
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    @staticmethod
    def forward(ctx, x: Tensor, factor: float) -> Tensor:
        Scale.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * Scale.factor, None
