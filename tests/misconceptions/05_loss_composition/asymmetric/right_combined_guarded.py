class Quantile(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction, truth, level):
        ctx.level = level
        ctx.save_for_backward(prediction, truth)
        gap = truth - prediction
        return torch.where(gap > 0, level * gap, (level - 1) * gap)

    @staticmethod
    def backward(ctx, feedback):
        prediction, truth = ctx.saved_tensors
        gap = truth - prediction
        pull = feedback * (ctx.level * (gap > 0).to(gap.dtype) - (1 - ctx.level) * (gap < 0).to(gap.dtype))
        need_prediction, need_truth, _ = ctx.needs_input_grad
        return (-pull if need_prediction else None), (pull if need_truth else None), None
