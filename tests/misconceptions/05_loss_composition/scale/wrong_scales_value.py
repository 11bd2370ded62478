# hint: scales-the-value
# story: Scales the value, and the gradient with it.
class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return scale * x

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.scale * grad_output, None
