# hint: fills-grad
# story: Uses backward and reads .grad.
def mixed_gradient(losses, weights, shared):
    flat = []
    for loss in losses:
        for p in shared:
            p.grad = None
        loss.backward(retain_graph=True)
        flat.append(torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad.clone()).reshape(-1) for p in shared]))
    first, second = flat
    length = first.norm() * second.norm()
    cosine = (first @ second / length).item() if length > 0 else 0.0
    return weights[0] * first + weights[1] * second, cosine
