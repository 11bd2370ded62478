# hint: tensor-on-ctx
# story: Keeps x as an attribute.
class Square(torch.autograd.Function):
    """y = x ** 2, ready for torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.x = inputs[0]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * 2 * ctx.x
