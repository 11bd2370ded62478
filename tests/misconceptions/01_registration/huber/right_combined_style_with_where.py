class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, delta):
        ctx.save_for_backward(x, target)
        ctx.delta = delta
        r = x - target
        return torch.where(r.abs() <= delta, r * r / 2, delta * (r.abs() - delta / 2))

    @staticmethod
    def backward(ctx, grad_output):
        x, target = ctx.saved_tensors
        r = x - target
        local = torch.where(r.abs() <= ctx.delta, r, ctx.delta * torch.sign(r))
        return grad_output * local, -grad_output * local, None
