# hint: wrong-sign
# story: Puts the minus on both.
class Solve(torch.autograd.Function):
    """x with A x = b, and the adjoint solve backward."""

    @staticmethod
    def forward(A: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.solve(A, b)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor]:
        A, x = ctx.saved_tensors
        adjoint = -Solve.apply(A.mT, grad_output)
        grad_A = adjoint @ x.mT if ctx.needs_input_grad[0] else None
        return grad_A, adjoint
