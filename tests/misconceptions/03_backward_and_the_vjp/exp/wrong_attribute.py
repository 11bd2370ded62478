# hint: constant-output
# story: Keeps the output as ctx.y.
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.y
