# hint: forgot-none
# story: Multiplies whatever arrives.
class SumAndProduct(torch.autograd.Function):
    """(a + b, a * b), with no zeros made for an output that was not used."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a + b, a * b

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_sum: Tensor | None, grad_product: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        return grad_sum + grad_product * b, grad_sum + grad_product * a
