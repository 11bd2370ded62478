# hint: one-dimensional-only
# story: Indexes x with one number: right for vectors, an error for a matrix.
def central_difference(fn, x, eps):
    gradient = torch.zeros(len(x), dtype=x.dtype)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step[i] = eps
        gradient[i] = (fn(x + step) - fn(x - step)) / (2 * eps)
    return gradient
