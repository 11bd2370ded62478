# hint: single-where
# story: Multiplies by a mask: 0 times NaN is NaN.
def safe_sqrt(x):
    return (x > 0) * x.sqrt().nan_to_num()
