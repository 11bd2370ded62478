def count_nodes(output):
    kept = {}
    stack = [output.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or id(node) in kept:
            continue
        kept[id(node)] = node
        stack.extend(edge[0] for edge in node.next_functions)
    return len(kept)
