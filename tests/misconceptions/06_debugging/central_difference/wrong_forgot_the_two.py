# hint: forgot-the-two
# story: Divides by the step, not by the distance between the two points.
def central_difference(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> Tensor:
    """The gradient of a scalar function by central differences, one coordinate at a time."""
    gradient = torch.zeros_like(x)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        gradient.view(-1)[i] = (fn(x + step) - fn(x - step)) / eps
    return gradient
