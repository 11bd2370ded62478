# hint: largest-step
# story: Returns the first step of the list, where the search began.
def best_step(fn, x, derivative, steps):
    eps = max(steps)
    return eps, abs(((fn(x + eps) - fn(x - eps)) / (2 * eps)).item() - derivative)
