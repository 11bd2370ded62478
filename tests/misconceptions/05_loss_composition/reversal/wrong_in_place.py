# hint: overwrites-upstream
# story: Multiplies grad_output in place.
class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        grad_output *= -ctx.scale
        return grad_output, None
