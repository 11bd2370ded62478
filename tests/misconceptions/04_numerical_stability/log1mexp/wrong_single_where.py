# hint: single-where
# story: Chooses between two branches with one where.
def log1mexp(x):
    return torch.where(x < math.log(2), torch.log(-torch.expm1(-x)), torch.log1p(-torch.exp(-x)))
