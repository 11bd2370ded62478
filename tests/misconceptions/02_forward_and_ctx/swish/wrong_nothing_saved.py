# hint: never-saved
# story: Asks for what was never saved.
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return grad_output * (s + x * s * (1 - s))
