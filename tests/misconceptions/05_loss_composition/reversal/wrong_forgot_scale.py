# hint: forgot-the-scale
# story: Reverses the gradient and forgets to scale it.
class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return -grad_output, None
