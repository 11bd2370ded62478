class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x.mul_(factor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor = inputs
        ctx.mark_dirty(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor, None
