class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, delta):
        ctx.save_for_backward(a, b)
        ctx.delta = delta
        r = a - b
        clipped = r.clamp(-delta, delta)
        return clipped * (r - clipped / 2)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        out = g * torch.minimum(torch.maximum(a - b, -ctx.delta * torch.ones_like(a)), ctx.delta * torch.ones_like(a))
        return out, out.neg(), None
