def log1mexp(x):
    out = torch.empty_like(x)
    near = x <= 0.5
    out[near] = torch.log(-torch.expm1(-x[near]))
    out[~near] = torch.log1p(-torch.exp(-x[~near]))
    return out
