class SwiGLU(torch.autograd.Function):
    """silu(gate) * up, keeping nothing but its inputs."""

    @staticmethod
    def forward(gate: Tensor, up: Tensor) -> Tensor:
        return gate * gate.sigmoid() * up

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        slope = sigmoid * (1 + gate * (1 - sigmoid))
        grad_gate = grad_output * up * slope if ctx.needs_input_grad[0] else None
        return grad_gate, grad_output * (gate * sigmoid) if ctx.needs_input_grad[1] else None
