# hint: too-deep
# story: writes the walk as a recursive function
def count_nodes(output):
    """Number of nodes in the autograd graph behind ``output``."""
    seen = set()

    def visit(node):
        if node is not None and node not in seen:
            seen.add(node)
            for following, _ in node.next_functions:
                visit(following)

    visit(output.grad_fn)
    return len(seen)
