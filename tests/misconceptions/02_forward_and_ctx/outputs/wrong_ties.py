# hint: compares-values
# story: Compares with the largest value, which two entries may have.
class MaxAndIndex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, index = x.max(1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(x, values)
        return values, index

    @staticmethod
    def backward(ctx, grad_values, _):
        x, values = ctx.saved_tensors
        return (x == values.unsqueeze(1)) * grad_values.unsqueeze(1)
