# hint: not-an-operator
# story: returns the apply of a Function
def cube_operator(name: str) -> torch.library.CustomOpDef:
    """Register y = x ** 3 under ``name``, with its fake and its gradient, and return the operator."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * 3 * x**2

    return Cube.apply
