"""Substitution: the same inputs under the default chain rule and under the custom rule, side by side."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from matplotlib.artist import Artist
from torch import Tensor

from ...graph import Edge, Event, Node, Recording, numbers, record
from ..palette import CUSTOM, RULE, TEXT
from ..stage import Control, Picture
from .drawing import GraphDrawing, legend, short
from .stepper import (
    HEAD,
    LEAST_WIDTH,
    LINE,
    MARGIN,
    ROOM,
    GraphStepper,
    lights,
    listed,
    marks,
    phase_heads,
)

GAP = 34  # between the two graphs, in pixels
MAX_REPLACED = 4  # told of below the picture


@dataclass(frozen=True)
class Replaced:
    """What a custom node replaces.

    Attributes:
        node: the custom node.
        source: where a gradient of it goes, by name.
        default, custom: that gradient under each rule.
        text: the replaced local derivative, in words.
    """

    node: str
    source: str
    default: Tensor | None
    custom: Tensor | None
    text: str


class Substitution(GraphStepper, mode="substitution"):
    """The default chain rule beside the custom rule, on the same inputs."""

    title = "One graph, two rules"

    def prepare(self, against: Callable | None, names: Sequence[str] | None) -> None:
        if against is None:
            if not self.recording.of_kind("custom"):
                raise ValueError(
                    "fn has no custom Function in its graph; give the other version as against=."
                )
            self.default = record(self.fn, *self.inputs, names=names, custom=False)
        else:
            if not callable(against):
                raise TypeError(f"against must be callable; got {type(against).__name__}.")
            self.default = record(against, *self.inputs, names=names)
        self.pairs = _pairs(self.default, self.recording)
        self.changed = self._changed()
        self.replaced = self._replaced()
        replaced = [node.id for node in self.default.of_kind("operator") if node.id not in self.pairs]
        room = (ROOM - 2 * MARGIN - GAP) / 2
        self.drawings = (
            GraphDrawing(self.default, room, framed=replaced, max_per_layer=3),
            GraphDrawing(self.recording, room, self.changed, max_per_layer=3),
        )
        self.steps = self._steps()
        heads = [
            max(9 * len(head), drawing.width)
            for head, drawing in zip(self._titles, self.drawings, strict=True)
        ]
        width = max(LEAST_WIDTH, sum(heads) + GAP + 2 * MARGIN)
        spare = (width - sum(heads) - GAP - 2 * MARGIN) / 2
        self._lefts = (MARGIN + spare / 2, MARGIN + heads[0] + 1.5 * spare + GAP)
        self._middle = MARGIN + heads[0] + spare + GAP / 2
        tall = max(drawing.height for drawing in self.drawings)
        self._foot = HEAD + 36 + tall + 2 * MARGIN
        self._marks = [*marks(self.recording), ("≠", "differs from the default", CUSTOM)]
        if replaced:
            self._marks.append(("▭", "what the custom node replaces", CUSTOM))
        under = legend(None, MARGIN, 0, width - 2 * MARGIN, self._marks)
        self.size = (math.ceil(width), math.ceil(self._foot + LINE * len(self._lines()) + under + 10))
        last = len(self.steps) + 1
        labels = ["0, ready", *(f"{step} of {last - 1}" for step in range(1, last)), "all done"]
        super(GraphStepper, self).__init__(Control("step", "step", list(range(last + 1)), labels, start=last))

    @property
    def _titles(self) -> tuple[str, str]:
        functions = {node.function.__name__: None for node in self.recording.of_kind("custom")}
        custom = listed(list(functions)) if len(functions) <= 2 else f"{len(functions)} Functions"
        return "default chain rule", f"custom rule: {custom}" if custom else "the other version"

    def _changed(self) -> list[Edge | Node]:
        """Edges and leaves of the custom graph whose gradient differs from that of their partner."""
        back = {custom: default for default, custom in self.pairs.items()}
        found: list[Edge | Node] = []
        for edge in self.recording.edges:
            if not edge.differentiable:
                continue
            if edge.target in back:
                twins = [each for each in self.default.into(back[edge.target]) if each.input == edge.input]
                default = twins[0].gradient if twins else None
            elif edge.source in back:
                default = self._into_replaced(back[edge.source])
            else:
                continue
            if _differ(default, edge.gradient):
                found.append(edge)
        for node in self.recording.of_kind("leaf"):
            if node.id in back and _differ(self.default.nodes[back[node.id]].gradient, node.gradient):
                found.append(node)
        return found

    def _into_replaced(self, source: int) -> Tensor | None:
        """What a node of the default graph gets back from those that the custom nodes replace."""
        return _total(
            [each.gradient for each in self.default.out_of(source) if each.target not in self.pairs]
        )

    def _replaced(self) -> list[Replaced]:
        back = {custom: default for default, custom in self.pairs.items()}
        found = []
        for node in self.recording.of_kind("custom"):
            for edge in self.recording.into(node):
                if not edge.differentiable or edge.source not in back:
                    continue
                default = self._into_replaced(back[edge.source])
                name = self.recording.origin(edge)
                text = _derivatives(default, edge.gradient, node.gradient)
                found.append(Replaced(node.name, name, default, edge.gradient, text))
        return found

    def _lines(self) -> list[str]:
        lines = [f"{each.node} → {each.source}: {each.text}" for each in self.replaced[:MAX_REPLACED]]
        if len(self.replaced) > MAX_REPLACED:
            lines.append(f"and {len(self.replaced) - MAX_REPLACED} more.")
        return lines or ["No custom node: the two versions are compared as wholes."]

    def _steps(self) -> list[tuple[list[Event], list[Event]]]:
        """Pairs of what happens now in each graph: together where both have the step, else one waits."""
        steps = []
        for phase in ("forward", "backward"):
            mine = [event for event in self.default.events if event.phase == phase]
            theirs = [event for event in self.recording.events if event.phase == phase]
            ids = [self.pairs.get(event.node, f"default {event.node}") for event in mine]
            other = [event.node for event in theirs]
            matcher = difflib.SequenceMatcher(None, ids, other, autojunk=False)
            for tag, a, b, c, d in matcher.get_opcodes():
                if tag == "equal":
                    steps += [([one], [two]) for one, two in zip(mine[a:b], theirs[c:d], strict=True)]
                else:
                    left, right = mine[a:b], theirs[c:d]
                    steps += [
                        (left[at : at + 1], right[at : at + 1]) for at in range(max(len(left), len(right)))
                    ]
        return steps

    def stage(self, picture: Picture) -> None:
        panel = self._panel(picture)
        width = self.size[0]
        style = {"fontsize": 14, "weight": "bold", "va": "center"}
        for drawing, left, text, ink in zip(
            self.drawings, self._lefts, self._titles, (TEXT, CUSTOM), strict=True
        ):
            drawing.stage(picture, panel, left, HEAD + 32)
            panel.text(left, HEAD + 8, text, color=ink.light, parse_math=False, **style)
        panel.plot([self._middle] * 2, [HEAD, self._foot - MARGIN], color=RULE.light, linewidth=1)
        self._heads = phase_heads(picture, panel, 16)
        style = {"fontsize": 13, "va": "center", "parse_math": False}
        self._results = [
            picture.move(
                panel.text(MARGIN, self._foot + LINE * (at + 0.5), line, color=CUSTOM.light, **style)
            )
            for at, line in enumerate(self._lines())
        ]
        top = self._foot + LINE * len(self._results) + 4
        legend(panel, MARGIN, top, width - 2 * MARGIN, self._marks)

    def move(self, picture: Picture) -> None:
        step = self["step"]
        now = self.steps[step - 1] if 1 <= step <= len(self.steps) else ([], [])
        artists: list[Artist] = []
        for side, (drawing, recording) in enumerate(
            zip(self.drawings, (self.default, self.recording), strict=True)
        ):
            done = [event for pair in self.steps[: max(step - 1, 0)] for event in pair[side]]
            artists += drawing.show(*lights(recording, done, now[side]))
        phase = "ready" if not step else "done" if step > len(self.steps) else (now[0] or now[1])[0].phase
        known = phase == "done" or self._custom_has_answered(step)
        picture.moving[:] = [self._heads[phase], *artists, *(self._results if known else [])]

    def _custom_has_answered(self, step: int) -> bool:
        done = {(event.phase, event.node) for _, right in self.steps[:step] for event in right}
        customs = self.recording.of_kind("custom")
        return bool(customs) and all(("backward", node.id) in done for node in customs)

    def describe(self) -> str:
        step = self["step"]
        if step == 0:
            return (
                f"Ready: the same inputs under the default chain rule ({len(self.default)} nodes) and under the custom "
                f"rule ({len(self.recording)} nodes)."
            )
        if step > len(self.steps):
            return f"All {len(self.steps)} steps done. {self._verdict()}"
        left, right = self.steps[step - 1]
        phase = (left or right)[0].phase
        start = f"Step {step} of {len(self.steps)}, {phase}: "
        parts = [
            f"{name}, {recording.sentence(events[0])}"
            for name, recording, events in (
                ("default", self.default, left),
                ("custom", self.recording, right),
            )
            if events
        ]
        if left and right and self.pairs.get(left[0].node) == right[0].node:
            one, two = self.default.sentence(left[0]), self.recording.sentence(right[0])
            if one == two:
                return f"{start}both alike, {one}"
        return start + " ".join(part[0].upper() + part[1:] if at else part for at, part in enumerate(parts))

    def _verdict(self) -> str:
        leaves = [node for node in self.changed if isinstance(node, Node)]
        edges = [edge for edge in self.changed if isinstance(edge, Edge)]
        forward = [short(node.value) for node in self.recording.of_kind("output") if node.value is not None]
        if not self.changed:
            return f"Both give {listed(forward)}, and every gradient is the same under both rules."
        parts = []
        for node in leaves:
            default = next(each for each in self.default.of_kind("leaf") if each.name == node.name)
            before = "none" if default.gradient is None else numbers(default.gradient)
            after = "none" if node.gradient is None else numbers(node.gradient)
            parts.append(f"{node.name}: {before} by default, {after} by the custom rule")
        what = "; ".join(parts) if parts else "none of a leaf"
        return f"Both give {listed(forward)}; {len(edges)} gradients on edges differ, and these of leaves: {what}."


def _pairs(default: Recording, custom: Recording) -> dict[int, int]:
    """Which node of the default graph is which of the custom one; what only one of them has is left out."""

    def keys(recording: Recording) -> list[tuple]:
        made = []
        for node in recording.nodes:
            users = {recording.nodes[edge.target].inside for edge in recording.out_of(node)}
            inner = node.inside or (
                node.kind == "constant" and users and "" not in users and node.name not in shared
            )
            if inner or node.kind == "custom":
                made.append(("only here", id(recording), node.id))
            elif node.kind in ("operator",):
                made.append((node.operator, node.arguments))
            else:
                made.append((node.kind, node.name))
        return made

    shared = {node.name for node in default.of_kind("constant")} & {
        node.name for node in custom.of_kind("constant")
    }
    matcher = difflib.SequenceMatcher(None, keys(default), keys(custom), autojunk=False)
    pairs = {
        block.a + at: block.b + at for block in matcher.get_matching_blocks() for at in range(block.size)
    }
    for node in default.of_kind("leaf", "constant", "output"):
        twin = next((each for each in custom.nodes if (each.kind, each.name) == (node.kind, node.name)), None)
        if twin is not None and twin.id not in pairs.values():
            pairs[node.id] = twin.id
    return pairs


def _total(gradients: Sequence[Tensor | None]) -> Tensor | None:
    there = [each for each in gradients if each is not None]
    if not there:
        return None
    total = there[0]
    for each in there[1:]:
        total = total + each
    return total


def _differ(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        there = other if one is None else one
        return there is not None and bool((there != 0).any())
    if one.shape != other.shape:
        return True
    one, other = (each.to_dense() if each.layout != torch.strided else each for each in (one, other))
    finite = [each[each.isfinite()].abs() for each in (one, other)]
    scale = max((each.max().item() for each in finite if each.numel()), default=0.0)
    tolerance = torch.finfo(other.dtype).eps ** 0.5
    return not torch.allclose(one, other.to(one.dtype), tolerance, tolerance * scale, equal_nan=True)


def _derivatives(default: Tensor | None, custom: Tensor | None, upstream: Tensor | None) -> str:
    """The replaced local derivative: of single numbers, or element by element where the shapes allow it."""

    def local(gradient: Tensor | None) -> str | None:
        if upstream is None or bool((upstream == 0).any()):
            return None
        if gradient is None:
            return "0"
        if gradient.shape != upstream.shape:
            return None
        quotient = gradient / upstream
        if quotient.numel() > 4 and bool((quotient == quotient.reshape(-1)[0]).all()):
            return f"{numbers(quotient.reshape(-1)[0])} everywhere"
        return numbers(quotient)

    before, after = local(default), local(custom)
    if before is None or after is None:
        before = "none" if default is None else numbers(default)
        after = "none" if custom is None else numbers(custom)
        return f"gradient {before} by default, {after} by the custom rule"
    name = "local derivative" if upstream.numel() == 1 else "gradient ÷ upstream"
    if before == after:
        return f"{name} {before} under both rules"
    return f"{name} {before} replaced by {after}"
