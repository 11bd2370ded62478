# hint: adds-epsilon
# story: Adds a small constant under the root.
def safe_sqrt(x):
    return (x.clamp(min=0) + 1e-12).sqrt()
