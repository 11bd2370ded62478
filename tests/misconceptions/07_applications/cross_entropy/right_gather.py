class ChunkedCrossEntropy(torch.autograd.Function):
    """Mean cross entropy of x @ weight.T without holding all logits."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
        total = x.new_zeros(())
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        for start in range(0, len(x), chunk):
            rows = slice(start, start + chunk)
            log_p = (x[rows] @ weight.T).log_softmax(1)
            column = target[rows, None]
            total -= log_p.gather(1, column).sum()
            grad_logits = log_p.exp_()
            grad_logits.scatter_add_(1, column, -torch.ones_like(column, dtype=x.dtype))
            grad_logits /= len(x)
            grad_x[rows] = grad_logits @ weight
            grad_weight += grad_logits.T @ x[rows]
        ctx.save_for_backward(grad_x, grad_weight)
        return total / len(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_x, grad_weight = ctx.saved_tensors
        return grad_output * grad_x, grad_output * grad_weight, None, None
