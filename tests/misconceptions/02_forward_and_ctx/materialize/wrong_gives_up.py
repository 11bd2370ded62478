# hint: gives-up
# story: Returns None as soon as one is missing.
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
        if grad_product is None or grad_sum is None:
            return None, None
        grad_a, grad_b = grad_product * b, grad_product * a
        if grad_sum is not None:
            grad_a, grad_b = grad_a + grad_sum, grad_b + grad_sum
        return grad_a, grad_b
