# hint: never-stepped-back
# story: Nudges a copy, and forgets to take each nudge back before the next.
def central_difference(fn, x, eps):
    gradient = torch.zeros_like(x)
    moved = x.clone()
    for i in range(x.numel()):
        moved.view(-1)[i] += eps
        low = moved.clone()
        low.view(-1)[i] -= 2 * eps
        gradient.view(-1)[i] = (fn(moved) - fn(low)) / (2 * eps)
    return gradient
