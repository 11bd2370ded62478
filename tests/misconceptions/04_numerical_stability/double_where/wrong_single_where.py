# hint: single-where
# story: Guards the value and forgets the gradient.
def safe_sqrt(x):
    return torch.where(x > 0, x.sqrt(), torch.zeros_like(x))
