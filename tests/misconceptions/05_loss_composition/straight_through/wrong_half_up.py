# hint: half-up
# story: Rounds halves up, as learnt at school.
class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x + 0.5).floor()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output
