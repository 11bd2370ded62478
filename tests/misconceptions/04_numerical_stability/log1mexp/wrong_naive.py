# hint: naive
# story: Writes the formula as it stands.
def log1mexp(x):
    return torch.log(1 - torch.exp(-x))
