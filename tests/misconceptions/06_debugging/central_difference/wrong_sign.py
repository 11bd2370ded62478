# hint: wrong-sign
# story: Subtracts the upper value from the lower one.
def central_difference(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> Tensor:
    """The gradient of a scalar function by central differences, one coordinate at a time."""
    gradient = torch.zeros_like(x)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        gradient.view(-1)[i] = (fn(x - step) - fn(x + step)) / (2 * eps)
    return gradient
