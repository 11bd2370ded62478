def central_difference(function, point, pinch):
    result = torch.empty_like(point)
    for place in range(point.numel()):
        up, down = point.clone(), point.clone()
        up.reshape(-1)[place] += pinch
        down.reshape(-1)[place] -= pinch
        result.reshape(-1)[place] = (function(up) - function(down)) / (2 * pinch)
    return result
