# hint: counts-none
# story: puts every neighbour into the set, None included
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    seen, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node is not None:
            waiting += [following for following, _ in node.next_functions]
    return len(seen)
