# hint: keeps-x-on-ctx
# story: Keeps x as an attribute of ctx.
class Quartic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.x = x
        return square * square

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 4 * ctx.x**3
