"""A recorded graph as a picture: shapes and edges that stay, and what lights up as forward and backward pass."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_rgba
from matplotlib.patches import BoxStyle
from matplotlib.path import Path
from matplotlib.text import Text
from torch import Tensor

from ...graph import Edge, Node, Recording, numbers
from ...graph.layout import Layout, Wish, layout
from ..palette import BACKWARD, CUSTOM, FORWARD, GROUND, MUTED, TEXT, Ink
from ..stage import Picture

NAME, NOTE = 13, 12  # font sizes, in pixels
NAME_WIDTH, NOTE_WIDTH = 8.6, 7.3  # of a character, generously
NODE_HEIGHT, LINE_HEIGHT = 42, 16
LONGEST = 22  # characters of a line in a node
LEGEND = 24  # height

CONSTANT = (0, (1, 2.5))  # the dashes of an edge without a gradient
TINT, TINT_NOW = 0.06, 0.13  # of a node; more would cost the text in it its contrast

DOWN, UP, OWN, DIFFERENT = "▼ ", "▲ ", "◆ ", "≠ "


@dataclass(frozen=True)
class Light:
    """How brightly something is lit: the ink, and whether it is what is happening now."""

    ink: Ink
    now: bool = False


@dataclass(frozen=True)
class Stroke:
    """A path with the colour and width of its line, the colour inside, and dashes in units of the width."""

    path: Path
    edge: str | tuple[str, float]
    width: float
    face: str | tuple[str, float] | None = None
    dash: str | tuple = "-"


class Strokes(Artist):
    """Several paths as one artist: a graph has many hundreds, and as patches they would take seconds to make."""

    def __init__(self, strokes: Collection[Stroke], zorder: float) -> None:
        super().__init__()
        self._strokes, self.zorder = strokes, zorder

    def draw(self, renderer: RendererBase) -> None:
        if not self.get_visible():
            return
        transform = self.get_transform()
        for stroke in self._strokes:
            context = renderer.new_gc()
            context.set_foreground(to_rgba(stroke.edge), isRGBA=True)
            context.set_linewidth(stroke.width)
            if stroke.dash != "-":
                start, lengths = stroke.dash
                context.set_dashes(start, [stroke.width * length for length in lengths])
            face = None if stroke.face is None else to_rgba(stroke.face)
            renderer.draw_path(context, stroke.path, transform, face)
            context.restore()
        self.stale = False


class GraphDrawing:
    """One recording, laid out, with every state of every part drawn once and then only shown or not.

    Args:
        recording: what to draw.
        room: width that it should not exceed if that can be avoided: numbers then stand below each other, to the
            right of their edge, instead of on either side of it.
        changed: edges and leaves whose gradient is to be marked as different.
        framed: ids of nodes to be framed in the ink of custom rules.
        max_per_layer: nodes beside one another.
    """

    def __init__(
        self,
        recording: Recording,
        room: float,
        changed: Collection[Edge | Node] = (),
        framed: Collection[int] = (),
        max_per_layer: int = 5,
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
                self._sizes, wishes, late, NODE_HEIGHT, lines * LINE_HEIGHT, gap, max_per_layer
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
        self._outlines: dict[tuple[int, float], Path] = {}
        self._lines = [self._line(number) for number in range(len(self.recording.edges))]
        for number, edge in enumerate(self.recording.edges):
            dash = "-" if edge.differentiable else CONSTANT
            self._draw(2, Stroke(self._lines[number], (MUTED.light, 0.55), 1, dash=dash))
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

    def _draw(self, zorder: float, *strokes: Stroke) -> Artist:
        return self._put(Strokes(strokes, zorder))

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

    def _outline(self, node: Node, grow: float = 0) -> Path:
        if (node.id, grow) not in self._outlines:
            self._outlines[node.id, grow] = self._traced(node, grow)
        return self._outlines[node.id, grow]

    def _traced(self, node: Node, grow: float) -> Path:
        x, y = self._centre(node.id)
        width, height = (size + 2 * grow for size in self._sizes[node.id])
        left, top = x - width / 2, y - height / 2
        if node.kind == "custom":
            slant = height / 2.6
            right, bottom = x + width / 2, y + height / 2
            above = [(left + slant, top), (right - slant, top)]
            below = [(right - slant, bottom), (left + slant, bottom)]
            return _polygon((left, y), *above, (right, y), *below)
        rounding = {"leaf": height / 2, "constant": height / 2, "output": 0.01}.get(node.kind, 7)
        return BoxStyle.Round(pad=0, rounding_size=rounding)(left, top, width, height, 1)

    def _shape(self, node: Node) -> None:
        edge, width, dash = {
            "leaf": (TEXT.light, 1.4, "-"),
            "constant": (MUTED.light, 1.2, (0, (3, 2))),
            "operator": (MUTED.light, 1.2, "-"),
            "custom": (CUSTOM.light, 2.6, "-"),
            "output": (TEXT.light, 1.4, "-"),
        }[node.kind]
        strokes = [Stroke(self._outline(node), edge, width, GROUND.light, dash)]
        if node.kind == "output":
            strokes.append(Stroke(self._outline(node, -3), TEXT.light, 1))
        if node.id in self._framed:
            strokes.append(Stroke(self._outline(node, 5), CUSTOM.light, 1.6, dash=CUSTOM.dash))
        self._draw(3, *strokes)
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
        strokes = [Stroke(self._outline(node), ink.light, 3.4 if light.now else 2.2, tint)]
        if light.now:
            strokes.append(Stroke(self._outline(node, 5), (ink.light, 0.35), 3))
        return [self._draw(4, *strokes)]

    def _line(self, number: int) -> Path:
        points = [(x + self._left, y + self._top) for x, y in self.place.paths[number]]
        corners, codes = [points[0]], [Path.MOVETO]
        for (x, y), (to_x, to_y) in itertools.pairwise(points):
            if abs(x - to_x) < 0.5:
                corners.append((to_x, to_y))
                codes.append(Path.LINETO)
            else:
                corners += [(x, (y + to_y) / 2), (to_x, (y + to_y) / 2), (to_x, to_y)]
                codes += [Path.CURVE4] * 3
        return Path(corners, codes)

    def _lit_edge(self, number: int, light: Light) -> list[Artist]:
        edge = self.recording.edges[number]
        back = light.ink is BACKWARD
        ink = CUSTOM if back and self.recording.nodes[edge.target].kind == "custom" else light.ink
        dash = ink.dash if edge.differentiable else CONSTANT
        line = Stroke(self._lines[number], ink.light, 3 if light.now else 1.7, dash=dash)
        points = self.place.paths[number]
        (x, y), way = (points[0], -1) if back else (points[-1], 1)
        x, y, size = x + self._left, y + self._top, 9 if light.now else 7
        head = _polygon((x, y), (x - 0.6 * size, y - way * size), (x + 0.6 * size, y - way * size))
        return [self._draw(2, line, Stroke(head, ink.light, 1, ink.light))]

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


def _polygon(*corners: tuple[float, float]) -> Path:
    return Path([*corners, corners[0]], closed=True)


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
