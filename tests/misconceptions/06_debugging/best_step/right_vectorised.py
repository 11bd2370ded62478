def best_step(fn, x, derivative, steps):
    estimates = torch.stack([(fn(x + e) - fn(x - e)) / (2 * e) for e in steps])
    errors = (estimates.double() - derivative).abs().nan_to_num(math.inf)
    place = int(errors.argmin())
    return steps[place], errors[place].item()
