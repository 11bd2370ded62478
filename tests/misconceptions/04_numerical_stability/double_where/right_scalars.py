def safe_sqrt(x):
    good = x > 0
    return torch.where(good, torch.where(good, x, 1.0).sqrt(), 0.0)
