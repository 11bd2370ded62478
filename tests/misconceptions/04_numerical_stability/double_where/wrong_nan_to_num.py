# hint: single-where
# story: Repairs the value with nan_to_num; the gradient keeps its NaN.
def safe_sqrt(x):
    return torch.where(x > 0, x.sqrt().nan_to_num(), torch.zeros_like(x))
