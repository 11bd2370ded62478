# hint: returns-its-input
# story: computes in place and returns the input
def cube_operator(name: str) -> torch.library.CustomOpDef:
    """Register y = x ** 3 under ``name``, with its fake and its gradient, and return the operator."""

    @torch.library.custom_op(name, mutates_args=())
    def cube(x: Tensor) -> Tensor:
        return x.pow_(3)

    @cube.register_fake
    def describe(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2

    cube.register_autograd(backward, setup_context=setup_context)
    return cube
