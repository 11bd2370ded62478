"""The graph that autograd built, step by step: forward values flow down, backward gradients flow up.

Every number comes from a recording of the real graph (``helpers.graph``). Three modes: *injection* follows one run;
*substitution* puts the default chain rule beside a custom rule; *verification* nudges a coordinate and compares slopes.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.artist import Artist
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from helpers.explorers.graph_drawing import GraphDrawing, Light, legend, short
from helpers.explorers.palette import BACKWARD, CHECK, CUSTOM, FORWARD, MUTED, RULE, TEXT, Ink
from helpers.explorers.stage import Control, FrameExplorer, Picture
from helpers.graph import Edge, Event, Node, Recording, numbers, record
from helpers.graph.record import as_before, stand_in

MODES = ("injection", "substitution", "verification")
MARGIN, HEAD, GAP, LINE = 10, 40, 34, 23
LEAST_WIDTH, ROOM = 640, 720  # of a picture, in pixels: at least, and where it can be kept to
STEPS = [10.0 ** (-1 - half / 2) for half in range(21)]
STEPS_IN_SINGLE = 11  # of them make sense in single precision
MOST_COORDINATES = 6
MOST_REPLACED = 4  # told of below the picture
TABLE, PLOT, REACH = 300, 150, 116  # of the verification: widths and heights in pixels
NUDGE = (
    ("▼", "value", FORWARD),
    ("▲", "gradient", BACKWARD),
    ("■ ···", "slope between the nudges", CHECK),
    ("╌╌", "slope the gradient claims", BACKWARD),
)
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # the tolerances of torch.autograd.gradcheck


class GraphStepper(FrameExplorer):
    """Step through the graph of ``fn`` as autograd recorded it.

    Args:
        fn: a function of tensors, a module, or the ``apply`` of an ``autograd.Function``; see ``helpers.graph.record``.
        inputs: its arguments.
        mode: ``"injection"``: one run, forward then backward; a custom node injects its own gradient.
            ``"substitution"``: the same inputs under the default chain rule and under the custom rule, side by side.
            ``"verification"``: nudge one coordinate by ±ε and compare the slope with the gradient.
        against: for substitution, the version of ``fn`` made of built-in operators. By default the forward of each
            custom Function is run as ordinary code, and autograd applies the chain rule inside it.
        names: of the inputs, one each; by default those of the parameters of ``fn``.

    Attributes:
        recording: of ``fn`` on these inputs.

    Raises:
        TypeError, ValueError: ``mode`` or ``against`` does not fit, or ``fn`` cannot be recorded (the message says why).
    """

    interval = 1300

    def __new__(cls, fn: Callable, *inputs: Any, mode: str = "injection", **_: Any) -> GraphStepper:
        kinds = dict(zip(MODES, (Injection, Substitution, Verification), strict=True))
        if mode not in kinds:
            raise ValueError(f"mode is {mode!r}; allowed: {', '.join(MODES)}.")
        return super().__new__(kinds[mode])

    def __init__(
        self,
        fn: Callable,
        *inputs: Any,
        mode: str = "injection",
        against: Callable | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if against is not None and mode != "substitution":
            raise ValueError(f"against= belongs to mode='substitution'; the mode is {mode!r}.")
        self.fn, self.inputs = fn, tree_map_only(Tensor, stand_in, inputs)
        self.recording = record(fn, *self.inputs, names=names)
        self.prepare(against, names)

    def prepare(self, against: Callable | None, names: Sequence[str] | None) -> None:
        """Make controls and layout, once ``recording`` is there."""
        raise NotImplementedError

    @property
    def table(self) -> str:
        """The recording as a table: the picture for readers of text."""
        return self.recording.table()

    def _panel(self, picture: Picture):
        width, height = self.size
        panel = picture.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        panel.axis("off")
        return panel


def lights(recording: Recording, done: Sequence[Event], now: Sequence[Event]) -> tuple[dict, dict, set]:
    """How nodes and edges are lit when the events ``done`` have passed, and those in ``now`` are happening.

    Returns:
        nodes, edges and collected, as ``GraphDrawing.show`` takes them.
    """
    happened = [*done, *now]
    forward = {event.node for event in happened if event.phase == "forward"}
    backward = {event.node for event in happened if event.phase == "backward"}
    current = {(event.phase, event.node) for event in now}
    nodes, edges = {}, {}
    for place in forward:
        phase, ink = ("backward", BACKWARD) if place in backward else ("forward", FORWARD)
        nodes[place] = Light(ink, (phase, place) in current)
    for number, edge in enumerate(recording.edges):
        if edge.source not in forward:
            continue
        if edge.target in backward and edge.differentiable:
            light = Light(BACKWARD, ("backward", edge.target) in current)
            edges[number] = (light, True, True)
        else:
            edges[number] = (Light(FORWARD, ("forward", edge.target) in current), True, False)
    collected = {node.id for node in recording.of_kind("leaf") if node.id in backward}
    return nodes, edges, collected


class Injection(GraphStepper):
    """One run: forward, then backward, one node at a time."""

    title = "Forward flows down, backward flows up"

    def prepare(self, against: Callable | None, names: Sequence[str] | None) -> None:
        self.drawing = GraphDrawing(self.recording, ROOM - 2 * MARGIN)
        width = max(LEAST_WIDTH, self.drawing.width + 2 * MARGIN)
        self._foot = HEAD + self.drawing.height + 3 * MARGIN
        under = legend(None, MARGIN, 0, width - 2 * MARGIN, _marks(self.recording))
        self.size = (math.ceil(width), math.ceil(self._foot + under + 6))
        last = len(self.recording.events) + 1
        labels = ["0, ready", *(f"{step} of {last - 1}" for step in range(1, last)), "all done"]
        super(GraphStepper, self).__init__(Control("step", "step", list(range(last + 1)), labels, start=last))

    def stage(self, picture: Picture) -> None:
        panel = self._panel(picture)
        width = self.size[0]
        self.drawing.stage(picture, panel, (width - self.drawing.width) / 2, HEAD + MARGIN)
        style = {"fontsize": 15, "weight": "bold", "va": "center"}
        self._heads = {
            phase: picture.move(panel.text(MARGIN, 20, text, color=ink.light, **style))
            for phase, text, ink in (
                ("ready", "ready", MUTED),
                ("forward", "▼ forward", FORWARD),
                ("backward", "▲ backward", BACKWARD),
                ("done", "done", TEXT),
            )
        }
        legend(panel, MARGIN, self._foot, width - 2 * MARGIN, _marks(self.recording))

    def move(self, picture: Picture) -> None:
        step, events = self["step"], self.recording.events
        now = events[step - 1 : step] if step else []
        shown = lights(self.recording, events[: max(step - 1, 0)], now)
        phase = "ready" if not step else "done" if step > len(events) else now[0].phase
        picture.moving[:] = [self._heads[phase], *self.drawing.show(*shown)]

    def describe(self) -> str:
        step, events = self["step"], self.recording.events
        custom = [node.name for node in self.recording.of_kind("custom")]
        if step == 0:
            own = f" {_few(custom)} {'is' if len(custom) == 1 else 'are'} custom." if custom else ""
            return f"Ready: {len(self.recording)} nodes, {len(events)} steps.{own} Forward comes first."
        if step > len(events):
            return f"All {len(events)} steps done. {_outcome(self.recording)}"
        event = events[step - 1]
        return f"Step {step} of {len(events)}, {event.phase}: {self.recording.sentence(event)}"


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


class Substitution(GraphStepper):
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
            GraphDrawing(self.default, room, framed=replaced, most=3),
            GraphDrawing(self.recording, room, self.changed, most=3),
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
        self._marks = [*_marks(self.recording), ("≠", "differs from the default", CUSTOM)]
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
        custom = _names(list(functions)) if len(functions) <= 2 else f"{len(functions)} Functions"
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
        lines = [f"{each.node} → {each.source}: {each.text}" for each in self.replaced[:MOST_REPLACED]]
        if len(self.replaced) > MOST_REPLACED:
            lines.append(f"and {len(self.replaced) - MOST_REPLACED} more.")
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
        style = {"fontsize": 15, "weight": "bold", "va": "center"}
        self._heads = {
            phase: picture.move(panel.text(MARGIN, 16, text, color=ink.light, **style))
            for phase, text, ink in (
                ("ready", "ready", MUTED),
                ("forward", "▼ forward", FORWARD),
                ("backward", "▲ backward", BACKWARD),
                ("done", "done", TEXT),
            )
        }
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
            return f"Both give {_names(forward)}, and every gradient is the same under both rules."
        parts = []
        for node in leaves:
            default = next(each for each in self.default.of_kind("leaf") if each.name == node.name)
            before = "none" if default.gradient is None else numbers(default.gradient)
            after = "none" if node.gradient is None else numbers(node.gradient)
            parts.append(f"{node.name}: {before} by default, {after} by the custom rule")
        what = "; ".join(parts) if parts else "none of a leaf"
        return f"Both give {_names(forward)}; {len(edges)} gradients on edges differ, and these of leaves: {what}."


class Verification(GraphStepper):
    """One coordinate, nudged by ±ε: the slope between two forwards against the gradient."""

    title = "Nudge an input, compare the slope"
    interval = 900

    def prepare(self, against: Callable | None, names: Sequence[str] | None) -> None:
        self.coordinates = _coordinates(self.recording)
        if not self.coordinates:
            raise ValueError("no leaf holds real numbers with a gradient, so there is nothing to nudge.")
        self._base = self._evaluate()
        self.drawing = GraphDrawing(self.recording, ROOM - 4 * MARGIN - TABLE, most=3)
        width = max(LEAST_WIDTH, self.drawing.width + 4 * MARGIN + TABLE)
        self._foot = max(self.drawing.height + 4 * MARGIN, PLOT + 240 + LINE)
        under = legend(None, MARGIN, 0, width - 2 * MARGIN, NUDGE)
        self.size = (math.ceil(width), math.ceil(self._foot + under + 6))
        double = self._dtype() in (torch.float64, torch.complex128)
        steps = STEPS if double else STEPS[:STEPS_IN_SINGLE]
        start = min(range(len(steps)), key=lambda at: abs(math.log10(steps[at]) + (6 if double else 2.5)))
        labels = [_coordinate(self.recording, each) for each in self.coordinates]
        controls = [Control("eps", "step ε", steps, [f"{step:.1e}" for step in steps], start)]
        if len(labels) > 1:
            kind = "choice" if len(labels) <= 4 else "slider"
            controls.append(Control("coordinate", "coordinate", list(range(len(labels))), labels, kind=kind))
        self._answers = {
            (eps, place): self._nudge(place, eps) for eps in steps for place in range(len(labels))
        }
        super(GraphStepper, self).__init__(*controls)

    @property
    def place(self) -> int:
        """Which coordinate is nudged."""
        return self["coordinate"] if "coordinate" in self.controls else 0

    @property
    def answer(self) -> Answer:
        """What the present nudge gave."""
        return self._answers[self["eps"], self.place]

    @property
    def _single(self) -> bool:
        ends = [node for node in self.recording.of_kind("output") if node.upstream]
        return len(ends) == 1 and ends[0].value.numel() == 1

    def _dtype(self) -> torch.dtype:
        kinds = [node.value.dtype for node in self.recording.of_kind("output") if node.upstream]
        kinds += [self.recording.nodes[place].tensor.dtype for place, _ in self.coordinates]
        low = (torch.float32, torch.float16, torch.bfloat16)
        return next((kind for kind in kinds if kind in low), torch.float64)

    def _evaluate(self) -> float:
        """The number that backward differentiated: outputs weighted by the gradients at which backward started."""
        with as_before(self.fn, self.inputs), torch.no_grad():
            given = tree_map_only(
                Tensor, lambda each: each if each.requires_grad else each.clone(), self.inputs
            )
            tensors = [each for each in _flat(self.fn(*given)) if each.is_floating_point()]
        ends = [node for node in self.recording.of_kind("output") if node.value.is_floating_point()]
        total = 0.0
        for tensor, node in zip(tensors, ends, strict=True):
            if node.upstream:
                total += (tensor.double() * node.upstream[0].double()).sum().item()
        return total

    def _nudge(self, place: int, eps: float) -> Answer:
        leaf, index = self.coordinates[place]
        node = self.recording.nodes[leaf]
        gradient = node.gradient if node.gradient is not None else torch.zeros_like(node.tensor)
        analytic = gradient.reshape(-1)[index].item()
        values, raised = [], ""
        kept = node.tensor.data
        for by in (eps, -eps):
            moved = kept.clone(memory_format=torch.contiguous_format)
            moved.view(-1)[index] += by
            node.tensor.data = moved
            try:
                values.append(self._evaluate())
            except Exception as error:
                values.append(math.nan)
                raised = raised or f"{type(error).__name__}: {error}"
            finally:
                node.tensor.data = kept
        return Answer(eps, *values, analytic, raised)

    def stage(self, picture: Picture) -> None:
        panel = self._panel(picture)
        width = self.size[0]
        free = width - TABLE - 4 * MARGIN
        self.drawing.stage(picture, panel, MARGIN + (free - self.drawing.width) / 2, MARGIN)
        left, right, base = width - TABLE - MARGIN, width - MARGIN, MARGIN + PLOT
        self._centre = ((left + right) / 2, MARGIN + PLOT / 2)
        panel.plot([left, right], [base, base], color=RULE.light, linewidth=1)
        style = {"fontsize": 12, "color": MUTED.light, "ha": "center", "va": "center"}
        for part, text in ((-1, "−ε"), (0, "here"), (1, "+ε")):
            x = self._centre[0] + part * REACH
            panel.plot([x, x], [MARGIN, base], color=RULE.light, linewidth=1, linestyle=(0, (2, 3)))
            panel.text(x, base + 14, text, **style)
        whole = "output" if self._single else "sum of outputs"
        inks = {"slope": CHECK, "gradient": BACKWARD}
        rows = ("step ε", f"{whole} at +ε", f"{whole} at −ε", "slope", "gradient", "error", "tolerance")
        for at, name in enumerate(rows):
            ink = inks.get(name, TEXT)
            panel.text(left, base + 46 + LINE * at, name, color=ink.light, fontsize=13, va="center")
        style = {
            "fontsize": 13,
            "ha": "right",
            "va": "center",
            "family": "DejaVu Sans Mono",
            "linespacing": LINE / 13,
        }
        middle = base + 44.5 + LINE * (len(rows) - 1) / 2
        self._numbers = picture.move(panel.text(right, middle, "", **style))
        style = {"fontsize": 15, "weight": "bold", "va": "center", "parse_math": False}
        self._verdict = picture.move(panel.text(left, base + 46 + LINE * len(rows) + 12, "", **style))
        self._secant = picture.move(
            *panel.plot([], [], color=CHECK.light, linestyle=CHECK.dash, linewidth=2.6)
        )
        self._claim = picture.move(*panel.plot([], [], **BACKWARD.line))
        self._points = picture.move(*panel.plot([], [], **CHECK.point))
        legend(panel, MARGIN, self._foot, width - 2 * MARGIN, NUDGE)

    def move(self, picture: Picture) -> None:
        answer = self.answer
        leaf, _ = self.coordinates[self.place]
        shown = (
            f"{answer.eps:.1e}",
            *(_digits(each) for each in (answer.plus, answer.minus, answer.slope, answer.analytic)),
            *(f"{each:.1e}" for each in (answer.error, answer.tolerance)),
        )
        _renew(self._numbers.set_text, self._numbers.get_text(), _printed("\n".join(shown)))
        verdict, ink = self._judged()
        _renew(self._verdict.set_text, self._verdict.get_text(), verdict)
        _renew(self._verdict.set_color, self._verdict.get_color(), ink.light)
        self._draw_lines(answer)
        affected = _below(self.recording, leaf)
        nodes = {place: Light(CHECK, place == leaf) for place in affected}
        edges = {
            number: (Light(CHECK if edge.source in affected and edge.differentiable else FORWARD), True, True)
            for number, edge in enumerate(self.recording.edges)
        }
        collected = {node.id for node in self.recording.of_kind("leaf")}
        index = _coordinate(self.recording, self.coordinates[self.place], named=False)
        notes = {leaf: (f"{index} ± ε".strip(), TEXT)}
        picture.moving[:] = [
            *self.drawing.show(nodes, edges, collected, notes),
            *(self._secant, self._claim, self._points, self._verdict, self._numbers),
        ]

    def _draw_lines(self, answer: Answer) -> None:
        x, y = self._centre
        rises = [answer.minus - self._base, answer.plus - self._base]
        claimed = answer.analytic * answer.eps
        finite = [abs(each) for each in (*rises, claimed) if math.isfinite(each)]
        scale = 0.42 * PLOT / (max(finite, default=0) or 1)
        xs = [x - REACH, x + REACH]
        lower, upper = (round(y - scale * each, 1) for each in rises)
        for line, at, heights in (
            (self._secant, xs, [lower, upper]),
            (self._points, [xs[0], x, xs[1]], [lower, y, upper]),
            (self._claim, xs, [round(y + scale * claimed, 1), round(y - scale * claimed, 1)]),
        ):
            _renew(
                lambda pair, line=line: line.set_data(*pair), tuple(map(list, line.get_data())), (at, heights)
            )

    def _judged(self) -> tuple[str, Ink]:
        answer = self.answer
        if answer.raised:
            return "✗ fn raised an error here", CUSTOM
        if math.isnan(answer.error):
            return "? no verdict: NaN", CUSTOM
        if answer.agrees:
            return "✓ slope and gradient agree", CHECK
        if any(node.rule for node in self.recording.of_kind("custom")):
            return "≠ differs, as declared", CUSTOM
        return "✗ slope and gradient differ", CUSTOM

    def describe(self) -> str:
        answer = self.answer
        name = _coordinate(self.recording, self.coordinates[self.place])
        if answer.raised:
            return f"{name} nudged by ±{answer.eps:.1e}: fn raised {answer.raised}."
        verdict = self._judged()[0].partition(" ")[2]
        rules = [
            f"{node.name} declares {node.rule}" for node in self.recording.of_kind("custom") if node.rule
        ]
        why = f" ({'; '.join(rules)})" if rules and not answer.agrees else ""
        whole = "the output is" if self._single else "the sum of the outputs is"
        return _printed(
            f"{name} nudged by ±{answer.eps:.1e}: {whole} {_digits(answer.plus)} and {_digits(answer.minus)}, "
            f"slope {_digits(answer.slope)}, gradient {_digits(answer.analytic)}, error {answer.error:.1e}, "
            f"tolerance {answer.tolerance:.1e}: {verdict}{why}."
        )


@dataclass(frozen=True)
class Answer:
    """What a nudge gave.

    Attributes:
        eps: its size.
        plus, minus: the output at +ε and at −ε.
        analytic: the gradient by backward.
        raised: the error of ``fn``, if there was one.
    """

    eps: float
    plus: float
    minus: float
    analytic: float
    raised: str

    @property
    def slope(self) -> float:
        """The central difference."""
        return (self.plus - self.minus) / (2 * self.eps)

    @property
    def error(self) -> float:
        """Between the slope and the gradient."""
        return abs(self.slope - self.analytic)

    @property
    def tolerance(self) -> float:
        """As ``torch.autograd.gradcheck`` has it by default."""
        return ABSOLUTE + RELATIVE * abs(self.slope)

    @property
    def agrees(self) -> bool:
        """The error is within the tolerance."""
        return self.error <= self.tolerance


def _marks(recording: Recording) -> list[tuple[str, str, Ink]]:
    marks = [("▼", "value going forward", FORWARD), ("▲", "gradient going back", BACKWARD)]
    if recording.of_kind("custom"):
        marks.append(("⬢ ◆", "custom node, gradient it injects", CUSTOM))
    return marks


def _outcome(recording: Recording) -> str:
    outputs = [f"{node.name} = {numbers(node.value)}" for node in recording.of_kind("output")]
    leaves = [
        f"{node.name} has {'none' if node.gradient is None else numbers(node.gradient)}"
        for node in recording.of_kind("leaf")
    ]
    custom = [node.name for node in recording.of_kind("custom")]
    who = f" {_few(custom)} injected {'its' if len(custom) == 1 else 'their'} own gradient." if custom else ""
    return f"Forward gave {_names(outputs)}; backward brought the gradients: {_names(leaves)}.{who}"


def _names(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def _few(custom: Sequence[str]) -> str:
    return _names(custom) if len(custom) <= 3 else f"{len(custom)} custom nodes"


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


def _coordinates(recording: Recording) -> list[tuple[int, int]]:
    """Up to eight coordinates, taken in turn from all leaves: (node, position in the flattened tensor)."""
    leaves = [
        node for node in recording.of_kind("leaf") if node.tensor.is_floating_point() and node.tensor.numel()
    ]
    longest = max((node.tensor.numel() for node in leaves), default=0)
    turns = [(node.id, index) for index in range(longest) for node in leaves if index < node.tensor.numel()]
    return sorted(turns[:MOST_COORDINATES])


def _coordinate(recording: Recording, coordinate: tuple[int, int], named: bool = True) -> str:
    node = recording.nodes[coordinate[0]]
    name = node.name if named else ""
    if node.tensor.dim() == 0:
        return name
    index = torch.unravel_index(torch.tensor(coordinate[1]), node.tensor.shape)
    return f"{name}[{', '.join(str(each.item()) for each in index)}]"


def _below(recording: Recording, leaf: int) -> set[int]:
    found, waiting = set(), [leaf]
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += [edge.target for edge in recording.out_of(place) if edge.differentiable]
    return found


def _flat(result: Any) -> list[Tensor]:
    return [each for each in tree_leaves(result) if isinstance(each, Tensor)]


def _renew(change: Callable, old: Any, new: Any) -> None:
    """Change an artist only where needed: one that did not change is not drawn again."""
    if old != new:
        change(new)


def _printed(text: str) -> str:
    return text.replace("-", "−").replace("nan", "NaN")


def _digits(value: float) -> str:
    return f"{value + 0.0:.9g}"
