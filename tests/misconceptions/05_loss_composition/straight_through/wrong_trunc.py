# hint: truncates
# story: Converts to integers and back.
class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.long().to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output
