# hint: infinite-at-zero
# story: Clamps at 0, where the slope of the root is infinite.
def safe_sqrt(x):
    return x.clamp(min=0).sqrt()
