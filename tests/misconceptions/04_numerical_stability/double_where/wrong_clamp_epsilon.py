# hint: adds-epsilon
# story: Clamps at a small constant.
def safe_sqrt(x):
    return x.clamp(min=1e-12).sqrt()
