# hint: returns-a-copy
# story: Changes x and returns a copy.
class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        x.mul_(factor)
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output, None
