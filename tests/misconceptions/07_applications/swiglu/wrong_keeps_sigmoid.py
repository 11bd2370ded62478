# hint: keeps-intermediates
# story: Keeps the sigmoid as well.
class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        sigmoid = gate.sigmoid()
        ctx.save_for_backward(gate, up, sigmoid)
        return gate * sigmoid * up

    @staticmethod
    def backward(ctx, grad_output):
        gate, up, sigmoid = ctx.saved_tensors
        slope = sigmoid * (1 + gate * (1 - sigmoid))
        return grad_output * up * slope, grad_output * gate * sigmoid
