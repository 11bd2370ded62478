# hint: wrong-sign-inside
# story: Turns the sign of the exponent.
def log1mexp(x):
    return torch.log(torch.expm1(x))
