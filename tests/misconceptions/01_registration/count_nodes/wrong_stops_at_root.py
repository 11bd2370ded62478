# hint: stops-at-root
# story: thinks that grad_fn is the graph
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    return 1 if output.grad_fn is not None else 0
