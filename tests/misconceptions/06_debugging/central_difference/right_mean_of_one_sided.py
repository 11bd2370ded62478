def central_difference(fn, x, eps):
    out = []
    for i in range(x.numel()):
        e = torch.zeros(x.numel(), dtype=x.dtype)
        e[i] = eps
        e = e.reshape(x.shape)
        out.append(0.5 * ((fn(x + e) - fn(x)) / eps + (fn(x) - fn(x - e)) / eps))
    return torch.stack(out).reshape(x.shape)
