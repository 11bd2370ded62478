# hint: wrong-error
# story: Keeps the sign of the error it returns.
def best_step(fn, x, derivative, steps):
    best, kept = steps[0], math.inf
    for eps in steps:
        error = ((fn(x + eps) - fn(x - eps)) / (2 * eps)).item() - derivative
        if abs(error) < abs(kept):
            best, kept = eps, error
    return best, -abs(kept)
