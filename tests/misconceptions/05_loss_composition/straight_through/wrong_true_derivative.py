# hint: true-derivative
# story: Returns what the derivative of a staircase is.
class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad_output):
        return torch.zeros_like(grad_output)
