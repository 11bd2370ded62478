# hint: smallest
# story: Takes the minimum.
class MaxAndIndex(torch.autograd.Function):
    """The largest entry of each row, and where it is."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        values, index = x.min(1)
        return values, index

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.shape = inputs[0].shape
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_index: Tensor) -> Tensor:
        (index,) = ctx.saved_tensors
        gradient = grad_values.new_zeros(ctx.shape)
        return gradient.scatter(1, index.unsqueeze(1), grad_values.unsqueeze(1))
