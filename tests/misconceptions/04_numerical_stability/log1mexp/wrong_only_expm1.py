# hint: only-expm1
# story: Has heard of expm1.
def log1mexp(x):
    return torch.log(-torch.expm1(-x))
