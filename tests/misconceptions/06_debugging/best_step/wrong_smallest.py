# hint: smallest-step
# story: Believes that a smaller step is always more accurate.
def best_step(fn, x, derivative, steps):
    eps = min(steps)
    return eps, abs(((fn(x + eps) - fn(x - eps)) / (2 * eps)).item() - derivative)
