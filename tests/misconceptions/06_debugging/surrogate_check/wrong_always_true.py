# hint: accepts-everything
# story: Compares the rule with itself.
def follows_rule(
    fn: Callable[[Tensor], Tensor], rule: Callable[[Tensor, Tensor], Tensor], x: Tensor
) -> bool:
    """Does the backward of ``fn`` follow the stated rule at ``x``, for an upstream gradient of no special form?"""
    x = x.detach().clone().requires_grad_()
    y = fn(x)
    if not y.requires_grad:
        return False
    grad_output = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, x, grad_output, allow_unused=True)
    return gradient is not None and torch.allclose(rule(x.detach(), grad_output), rule(x.detach(), grad_output))
