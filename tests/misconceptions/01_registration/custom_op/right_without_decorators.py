def cube_operator(name):
    def forward(x: Tensor) -> Tensor:
        return x * x * x

    operator = torch.library.custom_op(name, forward, mutates_args=())
    operator.register_fake(lambda x: torch.empty_like(x))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (3 * x * x)

    torch.library.register_autograd(name, backward, setup_context=setup_context)
    return operator
