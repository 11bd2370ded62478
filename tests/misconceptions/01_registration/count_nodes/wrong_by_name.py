# hint: by-name
# story: collects names instead of nodes
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    names, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.add(node.name())
            waiting += [following for following, _ in node.next_functions]
    return len(names)
