class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        x.copy_(factor * x)
        ctx.mark_dirty(x)
        ctx.factor = factor
        return x

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output, None
