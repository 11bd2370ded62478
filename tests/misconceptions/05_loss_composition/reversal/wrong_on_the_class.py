# hint: scale-is-shared
# story: Keeps the scale on the class.
class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ReverseGradient.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return -ReverseGradient.scale * grad_output, None
