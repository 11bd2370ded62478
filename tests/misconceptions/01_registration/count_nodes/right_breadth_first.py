from collections import deque


def count_nodes(output):
    queue, seen = deque(), set()
    if output.grad_fn is not None:
        queue.append(output.grad_fn)
        seen.add(output.grad_fn)
    while queue:
        for neighbour, _ in queue.popleft().next_functions:
            if neighbour is not None and neighbour not in seen:
                seen.add(neighbour)
                queue.append(neighbour)
    return len(seen)
