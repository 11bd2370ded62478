def log1mexp(x):
    small = x < 0.7
    near = torch.log(-torch.expm1(-x.masked_fill(~small, 0.5)))
    far = torch.log1p(-torch.exp(-x.masked_fill(small, 1.0)))
    return torch.where(small, near, far)
