# hint: wrong-dtype
# story: Collects the quotients in a list and makes a float64 tensor of them.
def central_difference(fn, x, eps):
    made = []
    for i in range(x.numel()):
        step = torch.zeros_like(x)
        step.view(-1)[i] = eps
        made.append((fn(x + step) - fn(x - step)).item() / (2 * eps))
    return torch.tensor(made, dtype=torch.float64).reshape(x.shape)
