class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x.sigmoid()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        s = x.sigmoid()
        return grad_output * (y + s * (1 - y))
