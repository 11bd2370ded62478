# hint: changes-x
# story: Makes the caller’s own tensor require a gradient.
def follows_rule(
    fn: Callable[[Tensor], Tensor], rule: Callable[[Tensor, Tensor], Tensor], x: Tensor
) -> bool:
    """Does the backward of ``fn`` follow the stated rule at ``x``, for an upstream gradient of no special form?"""
    x.requires_grad_()
    y = fn(x)
    if not y.requires_grad:
        return False
    grad_output = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, x, grad_output, allow_unused=True)
    return gradient is not None and torch.allclose(gradient, rule(x.detach(), grad_output))
