def cube_operator(name):
    @torch.library.custom_op(name, mutates_args=(), device_types="cpu")
    def cube(x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() ** 3)

    cube.register_fake(torch.empty_like)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def rule(ctx, upstream):
        return 3 * upstream * ctx.saved_tensors[0].square()

    cube.register_autograd(rule, setup_context=keep)
    return cube
