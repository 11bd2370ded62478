# hint: log1p-of-exp
# story: Takes softplus for it.
def log1mexp(x):
    return torch.log1p(torch.exp(-x))
