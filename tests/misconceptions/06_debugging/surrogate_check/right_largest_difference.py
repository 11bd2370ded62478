def follows_rule(fn, rule, x):
    z = x.detach().clone().requires_grad_()
    y = fn(z)
    upstream = torch.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape)
    if not y.requires_grad:
        return False
    found = torch.autograd.grad(y, z, upstream, allow_unused=True)[0]
    return found is not None and float((found - rule(z.detach(), upstream)).abs().max()) < 1e-9
