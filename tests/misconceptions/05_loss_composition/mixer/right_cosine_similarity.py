def mixed_gradient(
    losses: Sequence[Tensor], weights: Sequence[float], shared: Sequence[Tensor]
) -> tuple[Tensor, float]:
    """Gradient of the weighted sum over the shared parameters, and the cosine between the two gradients."""
    flat = []
    for loss in losses:
        gradients = torch.autograd.grad(loss, shared, retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(p) if g is None else g for p, g in zip(shared, gradients)]
        flat.append(torch.cat([g.reshape(-1) for g in filled]))
    first, second = flat
    mixed = weights[0] * first + weights[1] * second
    cosine = torch.cosine_similarity(first, second, dim=0).item()
    return mixed, cosine
