# hint: times-x
# story: Multiplies by the value.
class LeanRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.relu()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y
