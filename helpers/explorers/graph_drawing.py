"""A recorded graph as a picture: shapes and edges that stay, and what lights up as forward and backward pass."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch, Polygon
from matplotlib.path import Path
from matplotlib.text import Text
from torch import Tensor

from helpers.explorers.palette import BACKWARD, CUSTOM, FORWARD, GROUND, MUTED, TEXT, Ink
from helpers.explorers.stage import Picture
from helpers.graph import Edge, Node, Recording, numbers
from helpers.graph.layout import Layout, Wish, layout

NAME, NOTE = 13, 12  # font sizes, in pixels
NAME_WIDTH, NOTE_WIDTH = 8.6, 7.3  # of a character, generously
NODE_HEIGHT, LINE_HEIGHT = 42, 16
LONGEST = 22  # characters of a line in a node
LEGEND = 24  # height

TINT, TINT_NOW = 0.06, 0.13  # of a node; more would cost the text in it its contrast

DOWN, UP, OWN, DIFFERENT = "▼ ", "▲ ", "◆ ", "≠ "


@dataclass(frozen=True)
class Light:
    """How brightly something is lit: the ink, and whether it is what is happening now."""

    ink: Ink
    now: bool = False


class GraphDrawing:
    """One recording, laid out, with every state of every part drawn once and then only shown or not.

    Args:
        recording: what to draw.
        room: width that it should not exceed if that can be avoided: numbers then stand below each other, to the
            right of their edge, instead of on either side of it.
        changed: edges and leaves whose gradient is to be marked as different.
        framed: ids of nodes to be framed in the ink of custom rules.
        most: nodes beside one another.
    """

    def __init__(
        self,
        recording: Recording,
        room: float,
        changed: Collection[Edge | Node] = (),
        framed: Collection[int] = (),
        most: int = 5,
    ) -> None:
        self.recording = recording
        self._changed = {id(each) for each in changed}
        self._framed = framed
        self._notes = {node.id: self._note(node) for node in recording.nodes}
        self._collected = {
            node.id: (DIFFERENT if id(node) in self._changed else "") + f"grad {short(node.gradient, False)}"
            for node in recording.of_kind("leaf")
            if node.gradient is not None
        }
        self._sizes = {node.id: (self._width(node), NODE_HEIGHT) for node in recording.nodes}
        late = [node.id for node in recording.nodes if not recording.into(node)]
        for self._stacked in (False, True):
            wishes = [self._wish(edge) for edge in recording.edges]
            lines, gap = (2, 12) if self._stacked else (1, 18)
            self.place: Layout = layout(
                self._sizes, wishes, late, NODE_HEIGHT, lines * LINE_HEIGHT, gap, most
            )
            if self.place.width <= room:
                break
        self.width, self.height = self.place.width, self.place.height

    def _wish(self, edge: Edge) -> Wish:
        left, right = (6 + NOTE_WIDTH * len(text) for text in (self._value(edge), self._gradient(edge)))
        if self._stacked:
            left, right = 4, max(left, right)
        return Wish(edge.source, edge.target, left, right)

    def stage(self, picture: Picture, panel: Axes, left: float, top: float) -> None:
        """Draw what stays, with the graph's upper left corner at (left, top)."""
        self._picture, self._panel, self._left, self._top = picture, panel, left, top
        self._made: dict[tuple, list[Artist]] = {}
        for number, edge in enumerate(self.recording.edges):
            style = "-" if edge.differentiable else (0, (1, 2.5))
            self._put(self._line(number, edgecolor=MUTED.light, linewidth=1, linestyle=style, alpha=0.55))
        for node in self.recording.nodes:
            self._shape(node)

    def show(
        self,
        nodes: Mapping[int, Light],
        edges: Mapping[int, tuple[Light, bool, bool]],
        collected: Collection[int] = (),
        notes: Mapping[int, tuple[str, Ink]] | None = None,
    ) -> list[Artist]:
        """The artists of a state.

        Args:
            nodes: how each node is lit, by id.
            edges: by number: how each edge is lit, and whether its value and its gradient are shown.
            collected: leaves whose gradient is shown.
            notes: second lines of nodes for this state, by id.
        """
        artists: list[Artist] = []
        for number, (light, value, gradient) in edges.items():
            artists += self._kept(("edge", number, light), lambda n=number, lit=light: self._lit_edge(n, lit))
            if value:
                artists += self._kept(("value", number), lambda n=number: self._label(n, True))
            if gradient:
                artists += self._kept(("gradient", number), lambda n=number: self._label(n, False))
        for place, light in nodes.items():
            artists += self._kept(("node", place, light), lambda p=place, lit=light: self._lit_node(p, lit))
        for node in self.recording.nodes:
            text, ink = self._second_line(node, node.id in collected)
            text, ink = (notes or {}).get(node.id, (text, ink))
            if text:
                artists += self._kept(
                    ("note", node.id, text), lambda n=node, t=text, i=ink: self._second(n, t, i)
                )
        return artists

    def _second_line(self, node: Node, collected: bool) -> tuple[str, Ink]:
        if not collected or node.id not in self._collected:
            return self._notes[node.id], MUTED
        return self._collected[node.id], CUSTOM if id(node) in self._changed else BACKWARD

    def _kept(self, key: tuple, make) -> list[Artist]:
        if key not in self._made:
            self._made[key] = make()
            self._picture.move(*self._made[key])
        return self._made[key]

    def _put(self, artist: Artist) -> Artist:
        """Add to the figure itself: axes would clip each artist and measure it, which costs more than drawing it."""
        artist.set_transform(self._panel.transData)
        return self._panel.figure.add_artist(artist)

    def _write(self, x: float, y: float, text: str, **style) -> Artist:
        return self._put(Text(x, y, text, va="center", parse_math=False, **style))

    def _centre(self, place: int) -> tuple[float, float]:
        x, y = self.place.nodes[place]
        return x + self._left, y + self._top

    def _width(self, node: Node) -> float:
        second = max(self._notes[node.id], self._collected.get(node.id, ""), key=len)
        text = max(NAME_WIDTH * len(_cut(node.name)), NOTE_WIDTH * len(second))
        return max(56, text + (44 if node.kind == "custom" else 26))

    @staticmethod
    def _note(node: Node) -> str:
        if node.kind == "custom":
            return "custom Function"
        if node.kind == "operator":
            return _cut(", ".join(node.arguments))
        if node.kind in ("leaf", "constant"):
            return node.kind
        if node.kind == "output" and not node.upstream:
            return "no gradient"
        return ""

    def _value(self, edge: Edge) -> str:
        return DOWN + (short(edge.value) if edge.value is not None else "not seen")

    def _gradient(self, edge: Edge) -> str:
        if not edge.differentiable:
            return ""
        own = self.recording.nodes[edge.target].kind == "custom"
        mark = (DIFFERENT if id(edge) in self._changed else "") + (OWN if own else UP)
        return mark + (short(edge.gradient, False) if edge.gradient is not None else "none")

    def _outline(self, node: Node, grow: float = 0, **style) -> Patch:
        x, y = self._centre(node.id)
        width, height = self._sizes[node.id]
        width, height = width + 2 * grow, height + 2 * grow
        if node.kind == "custom":
            slant = height / 2.6
            corners = [
                *(
                    (x - width / 2, y),
                    (x - width / 2 + slant, y - height / 2),
                    (x + width / 2 - slant, y - height / 2),
                ),
                *(
                    (x + width / 2, y),
                    (x + width / 2 - slant, y + height / 2),
                    (x - width / 2 + slant, y + height / 2),
                ),
            ]
            return Polygon(corners, closed=True, **style)
        rounding = {"leaf": height / 2, "constant": height / 2, "output": 0.01}.get(node.kind, 7)
        box = f"round,pad=0,rounding_size={rounding}"
        return FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=box, **style)

    def _shape(self, node: Node) -> None:
        styles = {
            "leaf": {"facecolor": GROUND.light, "edgecolor": TEXT.light, "linewidth": 1.4},
            "constant": {
                "facecolor": GROUND.light,
                "edgecolor": MUTED.light,
                "linewidth": 1.2,
                "linestyle": (0, (3, 2)),
            },
            "operator": {"facecolor": GROUND.light, "edgecolor": MUTED.light, "linewidth": 1.2},
            "custom": {"facecolor": GROUND.light, "edgecolor": CUSTOM.light, "linewidth": 2.6},
            "output": {"facecolor": GROUND.light, "edgecolor": TEXT.light, "linewidth": 1.4},
        }
        self._put(self._outline(node, zorder=3, **styles[node.kind]))
        if node.kind == "output":
            style = {"facecolor": "none", "edgecolor": TEXT.light, "linewidth": 1}
            self._put(self._outline(node, -3, zorder=3, **style))
        if node.id in self._framed:
            style = {
                "facecolor": "none",
                "edgecolor": CUSTOM.light,
                "linewidth": 1.6,
                "linestyle": CUSTOM.dash,
            }
            self._put(self._outline(node, 5, zorder=3, **style))
        x, y = self._centre(node.id)
        two = self._notes[node.id] or self._collected.get(node.id)
        colour = CUSTOM.light if node.kind == "custom" else TEXT.light
        style = {"fontsize": NAME, "weight": "bold", "ha": "center", "zorder": 6}
        self._write(x, y - (8 if two else 0), _cut(node.name), color=colour, **style)

    def _second(self, node: Node, text: str, ink: Ink) -> list[Artist]:
        x, y = self._centre(node.id)
        colour = CUSTOM.light if node.kind == "custom" else ink.light
        return [self._write(x, y + 9, text, color=colour, fontsize=NOTE, ha="center", zorder=6)]

    def _lit_node(self, place: int, light: Light) -> list[Artist]:
        node = self.recording.nodes[place]
        ink = CUSTOM if node.kind == "custom" else light.ink
        injecting = ink is CUSTOM and light.now and light.ink is BACKWARD
        tint = ((CUSTOM if injecting else light.ink).light, TINT_NOW if light.now else TINT)
        width = 3.4 if light.now else 2.2
        lit = [self._outline(node, zorder=4, facecolor=tint, edgecolor=ink.light, linewidth=width)]
        if light.now:
            style = {"facecolor": "none", "edgecolor": (ink.light, 0.35), "linewidth": 3}
            lit.append(self._outline(node, 5, zorder=4, **style))
        return [self._put(each) for each in lit]

    def _line(self, number: int, **style) -> PathPatch:
        points = [(x + self._left, y + self._top) for x, y in self.place.paths[number]]
        corners, codes = [points[0]], [Path.MOVETO]
        for (x, y), (to_x, to_y) in itertools.pairwise(points):
            if abs(x - to_x) < 0.5:
                corners.append((to_x, to_y))
                codes.append(Path.LINETO)
            else:
                corners += [(x, (y + to_y) / 2), (to_x, (y + to_y) / 2), (to_x, to_y)]
                codes += [Path.CURVE4] * 3
        return PathPatch(Path(corners, codes), facecolor="none", zorder=2, **style)

    def _lit_edge(self, number: int, light: Light) -> list[Artist]:
        edge = self.recording.edges[number]
        back = light.ink is BACKWARD
        ink = CUSTOM if back and self.recording.nodes[edge.target].kind == "custom" else light.ink
        style = ink.dash if edge.differentiable else (0, (1, 2.5))
        line = self._line(number, edgecolor=ink.light, linewidth=3 if light.now else 1.7, linestyle=style)
        points = self.place.paths[number]
        (x, y), way = (points[0], -1) if back else (points[-1], 1)
        x, y, size = x + self._left, y + self._top, 9 if light.now else 7
        corners = [(x, y), (x - 0.6 * size, y - way * size), (x + 0.6 * size, y - way * size)]
        head = Polygon(corners, closed=True, color=ink.light, zorder=2.5)
        return [self._put(line), self._put(head)]

    def _label(self, number: int, forward: bool) -> list[Artist]:
        edge = self.recording.edges[number]
        x, y = self.place.labels[number]
        x, y = x + self._left, y + self._top
        shift = 8 if self._stacked and edge.differentiable else 0
        if forward:
            place = (x + 5, y - shift) if self._stacked else (x - 5, y)
            style = {"color": FORWARD.light, "ha": "left" if self._stacked else "right"}
            text = self._value(edge)
        else:
            own = self.recording.nodes[edge.target].kind == "custom"
            ink = CUSTOM if own or id(edge) in self._changed else BACKWARD
            weight = "bold" if id(edge) in self._changed else "normal"
            place, text = (x + 5, y + shift), self._gradient(edge)
            style = {"color": ink.light, "weight": weight, "ha": "left"}
        return [self._write(*place, text, fontsize=NOTE, zorder=5, **style)]


def legend(
    panel: Axes | None, left: float, top: float, room: float, entries: Collection[tuple[str, str, Ink]]
) -> float:
    """Lines that explain marks: each entry a mark, words, and the ink of the mark.

    Returns:
        The height they take; with ``panel=None`` nothing is drawn.
    """
    x, y = left, top + LEGEND / 2
    for mark, words, ink in entries:
        width = NOTE_WIDTH * len(mark) + 8 + 6.9 * len(words) + 18
        if x > left and x + width > left + room:
            x, y = left, y + LEGEND
        if panel is not None:
            style = {"fontsize": NOTE, "va": "center", "parse_math": False}
            panel.text(x, y, mark, color=ink.light, weight="bold", **style)
            panel.text(x + NOTE_WIDTH * len(mark) + 8, y, words, color=MUTED.light, **style)
        x += width
    return y + LEGEND / 2 - top


def short(tensor: Tensor, shaped: bool = True) -> str:
    """A tensor in a few characters: its numbers if there are up to three, else its shape (if wanted) and norm."""
    dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
    if dense.numel() == 1:
        return numbers(dense)
    if dense.dtype == torch.bool and dense.numel() <= 3:
        return " ".join("TF"[not each] for each in dense.reshape(-1).tolist())
    if 0 < dense.numel() <= 3 and not dense.is_complex():
        return " ".join(
            _brief(each) if dense.is_floating_point() else str(each) for each in dense.reshape(-1).tolist()
        )
    shape = "×".join(map(str, dense.shape))
    if dense.numel() == 0 or dense.dtype == torch.bool:
        return shape
    norm = torch.linalg.vector_norm(
        dense.to(torch.complex128 if dense.is_complex() else torch.float64)
    ).item()
    return f"{shape} ‖{_brief(norm)}‖" if shaped else f"‖{_brief(norm)}‖"


def _brief(value: float) -> str:
    text = f"{value + 0.0:.2g}" if abs(value) < 99.5 else f"{value:.3g}"
    return (
        text.replace("e-0", "e-")
        .replace("e+0", "e")
        .replace("e+", "e")
        .replace("-", "−")
        .replace("nan", "NaN")
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
