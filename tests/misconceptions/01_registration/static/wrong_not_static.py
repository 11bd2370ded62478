# hint: not-static
# story: changes the call and leaves the methods as they were
class Scale(torch.autograd.Function):
    """y = x * factor, with factor a plain number."""

    def forward(self, x, factor):
        self.factor = factor
        return x * factor

    def backward(self, grad_output):
        return grad_output * self.factor, None
