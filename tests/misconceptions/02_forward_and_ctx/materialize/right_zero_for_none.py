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
        s = 0 if grad_sum is None else grad_sum
        return (s if grad_product is None else s + grad_product * b), (s if grad_product is None else s + grad_product * a)
