# hint: changes-x
# story: Nudges x itself and puts it back, with what rounding leaves of it.
def central_difference(fn, x, eps):
    gradient = torch.zeros_like(x)
    flat = x.view(-1)
    for i in range(flat.numel()):
        flat[i] += eps
        up = fn(x)
        flat[i] -= 2 * eps
        down = fn(x)
        gradient.view(-1)[i] = (up - down) / (2 * eps)
    return gradient
