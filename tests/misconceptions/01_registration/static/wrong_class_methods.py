# hint: not-static
# story: knows that there is no instance, and takes the class instead
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    @classmethod
    def forward(cls, ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @classmethod
    def backward(cls, ctx, grad_output):
        return grad_output * ctx.factor, None
