def count_nodes(output):
    level = {output.grad_fn} - {None}
    every = set(level)
    while level:
        level = {following for node in level for following, _ in node.next_functions} - every - {None}
        every |= level
    return len(every)
