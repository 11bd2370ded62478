# hint: multiplies-by-x
# story: Multiplies by the input out of habit.
class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.saved_tensors[0]
