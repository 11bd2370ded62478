# hint: forgets-leaves
# story: counts operations only
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    seen, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node.name().endswith("AccumulateGrad"):
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
    return len(seen)
