# hint: counts-twice
# story: walks the graph as if it were a tree
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""

    def below(node):
        return 0 if node is None else 1 + sum(below(following) for following, _ in node.next_functions)

    return below(output.grad_fn)
