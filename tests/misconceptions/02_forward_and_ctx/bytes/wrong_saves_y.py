# hint: keeps-too-much
# story: Saves the output, as torch.relu does.
class LeanRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.relu()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * (y > 0)
