# hint: second-derivative
# story: Saves the softmax, a constant to the second derivative.
class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = x.logsumexp(dim)
        ctx.dim = dim
        softmax = (x - torch.where(y == -math.inf, torch.zeros_like(y), y).unsqueeze(dim)).exp()
        ctx.save_for_backward(softmax)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (softmax,) = ctx.saved_tensors
        return grad_output.unsqueeze(ctx.dim) * softmax, None
