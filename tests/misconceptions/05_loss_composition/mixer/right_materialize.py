def mixed_gradient(losses, weights, shared):
    rows = torch.stack([
        torch.cat([g.ravel() for g in torch.autograd.grad(loss, shared, retain_graph=True, materialize_grads=True)])
        for loss in losses
    ])
    norms = rows.norm(dim=1)
    cosine = float(rows[0] @ rows[1] / norms.prod()) if bool((norms > 0).all()) else 0.0
    return torch.tensor(weights, dtype=rows.dtype) @ rows, cosine
