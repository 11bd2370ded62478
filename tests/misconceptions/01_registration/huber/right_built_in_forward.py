class Huber(torch.autograd.Function):
    @staticmethod
    def forward(x, target, delta):
        return torch.nn.functional.huber_loss(x, target, reduction="none", delta=delta)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.border = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, upstream):
        prediction, truth = ctx.saved_tensors
        slope = torch.clamp(prediction - truth, min=-ctx.border, max=ctx.border)
        for_prediction = for_truth = None
        if ctx.needs_input_grad[0]:
            for_prediction = upstream * slope
        if ctx.needs_input_grad[1]:
            for_truth = upstream * -slope
        return for_prediction, for_truth, None
