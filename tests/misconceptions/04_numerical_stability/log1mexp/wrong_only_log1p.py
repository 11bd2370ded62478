# hint: only-log1p
# story: Has heard of log1p.
def log1mexp(x):
    return torch.log1p(-torch.exp(-x))
