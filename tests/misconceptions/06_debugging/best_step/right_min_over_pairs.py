def best_step(fn, x, derivative, steps):
    pairs = [(abs(((fn(x + e) - fn(x - e)) / (2 * e)).item() - derivative), e) for e in steps]
    error, step = min(pair for pair in pairs if not math.isnan(pair[0]))
    return step, error
