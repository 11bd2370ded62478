# hint: tensor-on-ctx
# story: Keeps x as an attribute: it works until somebody changes x.
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad_output):
        s = ctx.x.sigmoid()
        return grad_output * (s + ctx.x * s * (1 - s))
