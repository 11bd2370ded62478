# hint: gradient-without-graph
# story: Detaches, for a gradient is only a number.
class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.scale * grad_output.detach(), None
