# hint: times-the-value
# story: Multiplies by the value.
class MaxAndIndex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, index = x.max(1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(x, values, index)
        return values, index

    @staticmethod
    def backward(ctx, grad_values, _):
        x, values, index = ctx.saved_tensors
        return torch.zeros_like(x).scatter(1, index.unsqueeze(1), (values * grad_values).unsqueeze(1))
