# hint: no-autograd
# story: expects autograd to see through the operator
def cube_operator(name: str) -> torch.library.CustomOpDef:
    """Register y = x ** 3 under ``name``, with its fake and its gradient, and return the operator."""

    @torch.library.custom_op(name, mutates_args=())
    def cube(x: Tensor) -> Tensor:
        return x**3

    @cube.register_fake
    def describe(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    return cube
