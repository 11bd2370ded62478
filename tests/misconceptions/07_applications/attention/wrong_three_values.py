# hint: wrong-count
# story: Forgets that block is an argument.
class Attention(torch.autograd.Function):
    """Attention over blocks of queries: q (n, d), k (m, d), v (m, e) -> o (n, e), lse (n,)."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, block: int) -> tuple[Tensor, Tensor]:
        scale = q.shape[1] ** -0.5
        o, lse = q.new_empty(len(q), v.shape[1]), q.new_empty(len(q))
        for start in range(0, len(q), block):
            rows = slice(start, start + block)
            scores = scale * q[rows] @ k.T
            lse[rows] = scores.logsumexp(1)
            o[rows] = (scores - lse[rows, None]).exp() @ v
        return o, lse

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        q, k, v, ctx.block = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(q, k, v, *output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_o: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, o, lse = ctx.saved_tensors
        scale = q.shape[1] ** -0.5
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for start in range(0, len(q), ctx.block):
            rows = slice(start, start + ctx.block)
            p = (scale * q[rows] @ k.T - lse[rows, None]).exp()
            grad_p = grad_o[rows] @ v.T
            row_sums = (grad_o[rows] * o[rows]).sum(1, keepdim=True)
            grad_scores = scale * p * (grad_p - row_sums)
            grad_q[rows] = grad_scores @ k
            grad_k += grad_scores.T @ q[rows]
            grad_v += p.T @ grad_o[rows]
        return grad_q, grad_k, grad_v
