# hint: threshold-too-high
# story: Compares with a small constant and loses small numbers.
def safe_sqrt(x):
    ok = x > 1e-12
    return torch.where(ok, torch.where(ok, x, torch.ones_like(x)).sqrt(), torch.zeros_like(x))
