"""The layout keeps its promises: later is lower, nothing lies on anything else."""

from __future__ import annotations

import itertools

import pytest

from helpers.graph import record
from helpers.graph.layout import Layout, Wish, layout
from tests.graph.test_record import GRAPHS

HEIGHT = 42


def laid_out(name: str) -> tuple[dict, list[Wish], Layout]:
    fn, inputs = GRAPHS[name]
    recording = record(fn, *inputs)
    sizes = {node.id: (30.0 + 9 * len(node.name), HEIGHT) for node in recording.nodes}
    wishes = [Wish(edge.source, edge.target, 40.0, 60.0) for edge in recording.edges]
    late = [node.id for node in recording.nodes if not recording.into(node)]
    return sizes, wishes, layout(sizes, wishes, late)


def boxes(sizes: dict, wishes: list[Wish], place: Layout) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every node and every label."""
    found = []
    for node, (x, y) in place.nodes.items():
        width, height = sizes[node]
        found.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    for wish, (x, y) in zip(wishes, place.labels, strict=True):
        found.append((x - wish.left, y - 8, x + wish.right, y + 8))
    return found


def overlapping(found: list[tuple[float, float, float, float]]) -> list[tuple]:
    return [
        (one, other)
        for one, other in itertools.combinations(found, 2)
        if min(one[2], other[2]) - max(one[0], other[0]) > 1e-6
        and min(one[3], other[3]) - max(one[1], other[1]) > 1e-6
    ]


def test_an_overlap_is_noticed():
    assert overlapping([(0, 0, 10, 10), (9, 9, 20, 20)])
    assert not overlapping([(0, 0, 10, 10), (10, 0, 20, 10)])


@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_lies_on_anything_else(name):
    sizes, wishes, place = laid_out(name)
    found = boxes(sizes, wishes, place)
    assert overlapping(found) == []
    assert min(box[0] for box in found) >= -1e-6 and max(box[2] for box in found) <= place.width + 1e-6
    assert min(box[1] for box in found) >= -1e-6 and max(box[3] for box in found) <= place.height + 1e-6


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_computed_later_stands_lower(name):
    _, wishes, place = laid_out(name)
    for wish, path in zip(wishes, place.paths, strict=True):
        assert place.nodes[wish.source][1] < place.nodes[wish.target][1]
        heights = [y for _, y in path]
        assert heights == sorted(heights)
        assert abs(path[0][1] - place.nodes[wish.source][1]) == HEIGHT / 2
        assert abs(path[-1][1] - place.nodes[wish.target][1]) == HEIGHT / 2


def test_crossings_are_undone():
    """Two parallel chains whose ends were given in opposite order."""
    sizes = dict.fromkeys(range(6), (60.0, 42.0))
    place = layout(sizes, [Wish(*pair, 20, 20) for pair in ((0, 3), (1, 2), (3, 4), (2, 5))], late=[0, 1])
    assert (place.nodes[0][0] < place.nodes[1][0]) == (place.nodes[3][0] < place.nodes[2][0])
    assert (place.nodes[3][0] < place.nodes[2][0]) == (place.nodes[4][0] < place.nodes[5][0])


def test_no_layer_is_fuller_than_allowed():
    sizes = dict.fromkeys(range(9), (60.0, 42.0))
    wishes = [Wish(node, 8, 20, 20) for node in range(8)]
    place = layout(sizes, wishes, late=range(8), max_per_layer=3)
    rows = [y for _, y in place.nodes.values()]
    assert max(rows.count(y) for y in rows) == 3


def test_a_node_alone():
    place = layout({0: (60, 42)}, [])
    assert place.nodes == {0: (30, 21)}
    assert (place.width, place.height) == (60, 42)
