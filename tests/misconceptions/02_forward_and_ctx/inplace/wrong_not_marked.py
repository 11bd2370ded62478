# hint: not-marked-dirty
# story: Changes x through .data, without a word.
class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        x.data.mul_(factor)
        return x

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output, None
