# hint: no-graph
# story: never meets a tensor without a graph
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    seen, waiting = {output.grad_fn}, [output.grad_fn]
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen)
