# hint: forgot-the-minus
# story: Scales the gradient and forgets to reverse it.
class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.scale * grad_output, None
