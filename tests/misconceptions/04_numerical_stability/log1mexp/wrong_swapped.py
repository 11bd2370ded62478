# hint: naive
# story: Exchanges the two branches.
def log1mexp(x):
    small = x < math.log(2)
    return torch.where(small, torch.log1p(-torch.exp(-x)), torch.log(-torch.expm1(-x)))
