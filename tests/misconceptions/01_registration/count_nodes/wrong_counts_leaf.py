# hint: counts-leaf
# story: counts at least one node, for the tensor itself
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    seen, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return max(1, len(seen))
