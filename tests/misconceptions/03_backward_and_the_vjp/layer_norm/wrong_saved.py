# hint: saved-intermediate
# story: Saves x̂ and the scale.
class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        centred = x - x.mean(1, keepdim=True)
        scale = ((centred**2).mean(1, keepdim=True) + eps).rsqrt()
        normed = centred * scale
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight + bias

    @staticmethod
    def backward(ctx, grad_output):
        normed, scale, weight = ctx.saved_tensors
        g = grad_output * weight
        grad_x = scale * (g - g.mean(1, keepdim=True) - normed * (g * normed).mean(1, keepdim=True))
        return grad_x, (grad_output * normed).sum(0), grad_output.sum(0), None
