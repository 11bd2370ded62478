# hint: forgot-upstream
# story: Returns ones: the derivative of the identity.
class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad_output):
        return torch.ones_like(grad_output)
