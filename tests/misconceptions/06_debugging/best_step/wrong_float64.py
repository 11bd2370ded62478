# hint: computed-in-float64
# story: Casts x to float64 to be on the safe side.
def best_step(
    fn: Callable[[Tensor], Tensor], x: Tensor, derivative: float, steps: Sequence[float]
) -> tuple[float, float]:
    """The step with the most accurate central difference, and its absolute error."""
    x = x.double()
    best = (steps[0], math.inf)
    for eps in steps:
        estimate = (fn(x + eps) - fn(x - eps)) / (2 * eps)
        error = abs(estimate.item() - derivative)
        if error < best[1]:
            best = (eps, error)
    return best
