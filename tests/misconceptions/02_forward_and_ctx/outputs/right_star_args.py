class MaxAndIndex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, index = x.max(dim=-1)
        ctx.save_for_backward(x, index)
        return values, index

    @staticmethod
    def backward(ctx, *grads):
        x, index = ctx.saved_tensors
        return torch.zeros_like(x).scatter_(1, index.unsqueeze(-1), grads[0].unsqueeze(-1))
