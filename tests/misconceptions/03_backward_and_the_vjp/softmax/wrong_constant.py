# hint: tensor-on-ctx
# story: Keeps the output as an attribute.
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.softmax(1)
        return ctx.y

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.y * (grad_output - (grad_output * ctx.y).sum(1, keepdim=True))
