# hint: saved-intermediate
# story: Leaves the saved square, a constant to autograd.
class Quartic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x, square)
        return square * square

    @staticmethod
    def backward(ctx, grad_output):
        x, square = ctx.saved_tensors
        return grad_output * 4 * x * square
