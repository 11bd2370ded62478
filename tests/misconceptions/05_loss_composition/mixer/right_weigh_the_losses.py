def mixed_gradient(losses, weights, shared):
    def flat(value):
        grads = torch.autograd.grad(value, list(shared), retain_graph=True, allow_unused=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(grads, shared)])

    a, b = flat(losses[0]), flat(losses[1])
    total = flat(weights[0] * losses[0] + weights[1] * losses[1])
    product = float(a.norm() * b.norm())
    return total, (float(a.dot(b)) / product if product else 0.0)
