# hint: clamped
# story: Clamps the difference away from zero.
def log1mexp(x):
    return torch.log((1 - torch.exp(-x)).clamp(min=1e-12))
