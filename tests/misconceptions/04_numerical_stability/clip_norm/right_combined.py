class ClipGradientNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, max_norm):
        ctx.max_norm = max_norm
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        length = grad_output.square().sum().sqrt().item()
        shorten = ctx.max_norm / length if length > ctx.max_norm else 1.0
        return grad_output * shorten, None
