# hint: gradient-without-graph
# story: Saves the finished derivative: with no dependence on x left, nothing but grad_output could carry a graph.
class Quartic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(4 * x * square)
        return square * square

    @staticmethod
    def backward(ctx, grad_output):
        (local,) = ctx.saved_tensors
        return grad_output * local
