# hint: forgot-upstream
# story: Returns the scale as if it were the gradient.
class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return torch.full_like(grad_output, ctx.scale), None
