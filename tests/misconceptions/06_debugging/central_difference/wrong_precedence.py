# hint: half-too-small
# story: Divides by two for the average as well as by two steps.
def central_difference(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> Tensor:
    """The gradient of a scalar function by central differences, one coordinate at a time."""
    gradient = torch.zeros_like(x)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        gradient.view(-1)[i] = (fn(x + step) - fn(x - step)) / (2 * eps) / 2
    return gradient
