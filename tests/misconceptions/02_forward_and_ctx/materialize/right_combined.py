class SumAndProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        return a + b, a * b

    @staticmethod
    def backward(ctx, gs, gp):
        a, b = ctx.saved_tensors
        parts_a = [g for g in (gs, None if gp is None else gp * b) if g is not None]
        parts_b = [g for g in (gs, None if gp is None else gp * a) if g is not None]
        return sum(parts_a), sum(parts_b)
