def log1mexp(x):
    return torch.where(x > math.log(2), torch.log1p(-torch.exp(-x.clamp(min=0.5))), torch.log(-torch.expm1(-x.clamp(max=1.0))))
