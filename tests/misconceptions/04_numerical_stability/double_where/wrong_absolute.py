# hint: root-of-absolute
# story: Takes the absolute value to avoid NaN.
def safe_sqrt(x):
    return x.abs().sqrt()
