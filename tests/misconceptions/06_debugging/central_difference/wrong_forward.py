# hint: forward-difference
# story: Steps up only, as the definition of the derivative in a first calculus course does.
def central_difference(fn: Callable[[Tensor], Tensor], x: Tensor, eps: float) -> Tensor:
    """The gradient of a scalar function by central differences, one coordinate at a time."""
    gradient = torch.zeros_like(x)
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        gradient.view(-1)[i] = (fn(x + step) - fn(x)) / eps
    return gradient
