# hint: divides
# story: Divides, as one divides a loss by the number of its terms.
class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output / ctx.scale, None
