# hint: all-at-once
# story: Adds eps to the whole tensor, as one would for a single number.
def central_difference(fn, x, eps):
    slope = (fn(x + eps) - fn(x - eps)) / (2 * eps)
    return torch.full_like(x, slope.item())
