# hint: one-branch
# story: follows next_functions[0], as in the lesson's first print
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    total, node = 0, output.grad_fn
    while node is not None:
        total += 1
        node = node.next_functions[0][0] if node.next_functions else None
    return total
