class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        shift = x.amax(dim, keepdim=True).nan_to_num(neginf=0.0, posinf=0.0)
        y = (x - shift).exp().sum(dim).log() + shift.squeeze(dim)
        ctx.dim = dim
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        y = torch.where(y == -math.inf, torch.zeros_like(y), y)
        return grad_output.unsqueeze(ctx.dim) * torch.exp(x - y.unsqueeze(ctx.dim)), None
