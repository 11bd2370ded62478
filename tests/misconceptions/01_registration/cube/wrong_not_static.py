# hint: not-static
# story: writes methods as in any other class
class Cube(torch.autograd.Function):
    """y = x ** 3, with its own backward."""

    def forward(self, x):
        self.save_for_backward(x)
        return x**3

    def backward(self, grad_output):
        (x,) = self.saved_tensors
        return grad_output * 3 * x**2
