"""A layered layout: what is computed later stands lower, and every edge label has a place of its own.

The method is Sugiyama's (Sugiyama, Tagawa and Toda 1981, "Methods for Visual Understanding of Hierarchical System
Structures"): layers, then fewer crossings by barycentres, then coordinates. Labels take part as if they were nodes, as
in dot (Gansner et al. 1993), so that no label can lie on a node or on another label.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scipy.optimize import isotonic_regression

MAX_IN_A_LAYER = 5
SWEEPS = 12
THIN = 10  # width kept free for an edge that only passes
GAP = 18
SPINE = 8.0  # how much more an edge between operators is straightened than one from a leaf
BEND = 17  # height in which edges bend


@dataclass(frozen=True)
class Wish:
    """An edge to be drawn: from ``source`` to ``target``, with room to the left and the right of it for a label."""

    source: int
    target: int
    left: float
    right: float


@dataclass
class Layout:
    """Where things stand; y grows downwards, one unit is one CSS pixel.

    Attributes:
        width, height: of the whole.
        nodes: the centre of each node.
        labels: for each edge, the point of the edge beside which its label stands.
        paths: for each edge, the points it runs through, from its source down to its target.
    """

    width: float
    height: float
    nodes: dict[int, tuple[float, float]]
    labels: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]


@dataclass
class _Item:
    """A node, a label, or the place where an edge passes a row; ``left`` and ``right`` of its x.

    ``above`` and ``below`` are its neighbours, ``pull_above`` and ``pull_below`` how strongly each of them pulls.
    """

    row: int
    left: float
    right: float
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    pull_above: list[float] = field(default_factory=list)
    pull_below: list[float] = field(default_factory=list)


def layout(
    sizes: Mapping[int, tuple[float, float]],
    edges: Sequence[Wish],
    late: Sequence[int] = (),
    row_height: float = 42,
    label_height: float = 16,
    gap: float = GAP,
    max_per_layer: int = MAX_IN_A_LAYER,
) -> Layout:
    """Place nodes and edges.

    Args:
        sizes: width and height of each node, in an order in which every source comes before its target.
        edges: what is to be drawn between them.
        late: nodes without a source that are best placed right above whoever uses them.
        row_height, label_height: of a layer of nodes, and of the labels between two layers. An edge bends only
            above and below labels, in a space of its own.
        gap: the least space between two things beside one another.
        max_per_layer: the largest number of nodes beside one another.
    """
    sources = {node: [edge.source for edge in edges if edge.target == node] for node in sizes}
    layer = _layers(sources, edges, set(late), max_per_layer)
    quiet = set(late)  # leaves, and what is computed from one leaf alone, such as the transpose of a weight
    quiet |= {node for node, before in sources.items() if len(before) == 1 and before[0] in quiet}
    items: list[_Item] = []
    of_node = {}
    for node, (width, _) in sizes.items():
        of_node[node] = len(items)
        items.append(_Item(2 * layer[node], width / 2, width / 2))
    chains = [_chain(items, of_node, edge, layer, 1.0 if edge.source in quiet else SPINE) for edge in edges]
    rows = _ordered(items)
    x = _coordinates(items, rows, gap)
    left = min(at - item.left for at, item in zip(x, items, strict=True))
    right = max(at + item.right for at, item in zip(x, items, strict=True))

    between = label_height + 2 * BEND

    def place(index: int) -> tuple[float, float]:
        row = items[index].row
        above = (row + 1) // 2 * row_height + row // 2 * between
        return x[index] - left, above + (between if row % 2 else row_height) / 2

    def through(index: int) -> list[tuple[float, float]]:
        at, middle = place(index)
        half = (label_height if items[index].row % 2 else row_height) / 2
        return [(at, middle - half), (at, middle + half)]

    last = max(layer.values())
    height = (last + 1) * row_height + last * between
    nodes = {node: place(index) for node, index in of_node.items()}
    labels, paths = [], []
    ports = _ports(edges, chains, nodes, sizes, place)
    for edge, chain, (start, end) in zip(edges, chains, ports, strict=True):
        labels.append(place(chain[-1]))
        top = nodes[edge.source][1] + sizes[edge.source][1] / 2
        bottom = nodes[edge.target][1] - sizes[edge.target][1] / 2
        paths.append([(start, top), *(point for index in chain for point in through(index)), (end, bottom)])
    return Layout(right - left, height, nodes, labels, paths)


def _layers(
    sources: Mapping[int, list[int]], edges: Sequence[Wish], late: set[int], max_per_layer: int
) -> dict[int, int]:
    """The layer of each node: below all its sources, with at most ``max_per_layer`` nodes in a layer."""
    nodes = list(sources)
    layer: dict[int, int] = {}
    taken: dict[int, int] = {}
    for node in nodes:
        if node in late:
            continue
        own = [layer[source] for source in sources[node] if source not in late]
        lowest = max(own, default=0) + 1
        while taken.get(lowest, 0) >= max_per_layer:
            lowest += 1
        layer[node] = lowest
        taken[lowest] = taken.get(lowest, 0) + 1
    for node in reversed(nodes):  # what has only late sources comes late itself
        users = [layer[edge.target] for edge in edges if edge.source == node]
        if node not in late and users and all(source in late for source in sources[node]):
            lowest = min(users) - 1
            while lowest > layer[node] and taken.get(lowest, 0) >= max_per_layer:
                lowest -= 1
            taken[layer[node]] -= 1
            taken[lowest] = taken.get(lowest, 0) + 1
            layer[node] = lowest
    for node in sorted(late, key=nodes.index):
        users = [layer[edge.target] for edge in edges if edge.source == node]
        highest = min(users, default=1) - 1
        while taken.get(highest, 0) >= max_per_layer:
            highest -= 1
        layer[node] = highest
        taken[highest] = taken.get(highest, 0) + 1
    first = min(layer.values())
    return {node: row - first for node, row in layer.items()}


def _chain(
    items: list[_Item], of_node: dict[int, int], edge: Wish, layer: dict[int, int], pull: float
) -> list[int]:
    """The items through which an edge runs; the last is its label, right above its target."""
    first, last = 2 * layer[edge.source] + 1, 2 * layer[edge.target] - 1
    chain = []
    for row in range(first, last + 1):
        chain.append(len(items))
        label = row == last
        items.append(_Item(row, edge.left if label else THIN / 2, edge.right if label else THIN / 2))
    whole = [of_node[edge.source], *chain, of_node[edge.target]]
    for above, below in itertools.pairwise(whole):
        items[above].below.append(below)
        items[above].pull_below.append(pull)
        items[below].above.append(above)
        items[below].pull_above.append(pull)
    return chain


def _ordered(items: list[_Item]) -> list[list[int]]:
    """The rows from left to right, with few crossings."""
    rows: list[list[int]] = [[] for _ in range(max(item.row for item in items) + 1)]
    for index, item in enumerate(items):
        rows[item.row].append(index)
    best, fewest = [list(row) for row in rows], _crossings(items, rows)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        place = {index: at / max(len(row) - 1, 1) for row in rows for at, index in enumerate(row)}
        for row in rows if down else reversed(rows):

            def barycentre(index: int, place=place, down=down) -> float:
                near = items[index].above if down else items[index].below
                return sum(place[each] for each in near) / len(near) if near else place[index]

            row.sort(key=barycentre)
            place.update({index: at / max(len(row) - 1, 1) for at, index in enumerate(row)})
        crossings = _crossings(items, rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _crossings(items: list[_Item], rows: list[list[int]]) -> int:
    place = {index: at for row in rows for at, index in enumerate(row)}
    count = 0
    for row in rows:
        lines = [(place[index], place[below]) for index in row for below in items[index].below]
        count += sum(
            (one[0] - other[0]) * (one[1] - other[1]) < 0
            for at, one in enumerate(lines)
            for other in lines[at + 1 :]
        )
    return count


def _coordinates(items: list[_Item], rows: list[list[int]], gap: float) -> list[float]:
    """x of every item: near the mean of its neighbours, in order, never nearer than their widths allow."""
    x = [0.0] * len(items)
    offsets = []
    for row in rows:
        steps = [items[one].right + gap + items[other].left for one, other in itertools.pairwise(row)]
        offsets.append(list(itertools.accumulate(steps, initial=0.0)))
        for index, offset in zip(row, offsets[-1], strict=False):
            x[index] = offset - offsets[-1][-1] / 2
    for sweep in range(2 * SWEEPS):
        down, last = sweep % 2 == 0, sweep >= SWEEPS
        for number in range(len(rows)) if down else range(len(rows) - 1, -1, -1):
            row = rows[number]
            wished, weights = [], []
            for index, offset in zip(row, offsets[number], strict=False):
                item = items[index]
                near, pulls = (item.above, item.pull_above) if down else (item.below, item.pull_below)
                if last:
                    near, pulls = item.above + item.below, item.pull_above + item.pull_below
                strength = sum(pulls)
                pulled = sum(pull * x[each] for pull, each in zip(pulls, near, strict=True))
                wished.append((pulled / strength if near else x[index]) - offset)
                weights.append(strength if near else 0.1)
            if any(one > other for one, other in itertools.pairwise(wished)):
                wished = isotonic_regression(wished, weights=weights).x.tolist()
            for index, free, offset in zip(row, wished, offsets[number], strict=False):
                x[index] = free + offset
    return x


def _ports(edges, chains, nodes, sizes, place) -> list[tuple[float, float]]:
    """Where each edge leaves its source and enters its target: spread, in the order of where it comes from."""
    starts, ends = [0.0] * len(edges), [0.0] * len(edges)
    for node, (width, _) in sizes.items():
        for side, of, at in ((starts, "source", 0), (ends, "target", -1)):
            here = [number for number, edge in enumerate(edges) if getattr(edge, of) == node]
            here.sort(key=lambda number: place(chains[number][at])[0])
            step = min(22.0, (width - 24) / max(len(here) - 1, 1))
            for rank, number in enumerate(here):
                side[number] = nodes[node][0] + (rank - (len(here) - 1) / 2) * step
    return list(zip(starts, ends, strict=True))
