def follows_rule(fn, rule, x):
    for _ in range(3):
        z = x.detach().clone().requires_grad_(True)
        try:
            y = fn(z)
            v = torch.randn_like(y)
            (g,) = torch.autograd.grad(y, z, v)
        except RuntimeError:
            return False
        if not torch.allclose(g, rule(z.detach(), v), rtol=1e-6):
            return False
    return True
