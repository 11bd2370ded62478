# hint: clips
# story: Remembers the variant for binary weights.
class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * (ctx.saved_tensors[0].abs() <= 1)
