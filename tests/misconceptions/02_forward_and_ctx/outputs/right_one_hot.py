class MaxAndIndex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        index = x.argmax(1)
        ctx.save_for_backward(index)
        ctx.width = x.shape[1]
        ctx.mark_non_differentiable(index)
        return x.gather(1, index[:, None]).squeeze(1), index

    @staticmethod
    def backward(ctx, grad_values, grad_index):
        (index,) = ctx.saved_tensors
        return torch.nn.functional.one_hot(index, ctx.width) * grad_values[:, None]
