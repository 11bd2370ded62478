# hint: forward-difference
# story: Steps down only.
def central_difference(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> Tensor:
    """The gradient of a scalar function by central differences, one coordinate at a time."""
    gradient = torch.zeros_like(x)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        gradient.view(-1)[i] = (fn(x) - fn(x - step)) / eps
    return gradient
