def follows_rule(fn, rule, x):
    probe = x.clone().detach()
    probe.requires_grad = True
    out = fn(probe)
    if out.grad_fn is None:
        return False
    arriving = torch.rand_like(out) - 0.5
    out.backward(arriving)
    if probe.grad is None:
        return False
    return bool(torch.isclose(probe.grad, rule(x, arriving)).all())
