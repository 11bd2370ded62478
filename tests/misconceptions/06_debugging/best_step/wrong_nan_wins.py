# hint: nan-wins
# story: Lets NaN win: min() keeps a NaN that comes first, for no number is smaller than it.
def best_step(fn, x, derivative, steps):
    errors = [abs(((fn(x + e) - fn(x - e)) / (2 * e)).item() - derivative) for e in steps]
    best = min(range(len(steps)), key=lambda k: errors[k])
    return steps[best], errors[best]
