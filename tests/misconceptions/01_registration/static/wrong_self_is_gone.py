# hint: self-is-gone
# story: adds the decorator and keeps self
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    @staticmethod
    def forward(self, ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(self, ctx, grad_output):
        return grad_output * ctx.factor, None
