# hint: zero-taken-for-missing
# story: Writes a default with `or`, which takes 0 for missing.
class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return (ctx.scale or 1.0) * grad_output, None
