# hint: forgets-root
# story: starts with the neighbours of the first node
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    seen, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen)
