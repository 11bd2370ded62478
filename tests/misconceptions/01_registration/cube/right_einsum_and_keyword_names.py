class Cube(torch.autograd.Function):
    """The cube, its powers written with torch.pow."""

    @staticmethod
    def forward(base):
        return torch.pow(base, 3)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (base,) = inputs
        ctx.save_for_backward(base)

    @staticmethod
    def backward(ctx, upstream):
        base = ctx.saved_tensors[0]
        local = torch.pow(base, 2).mul(3)
        return torch.mul(upstream, local)
