# hint: reverses-the-value
# story: Reverses the value, so that the gradient follows by itself.
class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return -scale * x

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.scale * grad_output, None
