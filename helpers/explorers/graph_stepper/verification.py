"""Verification: one coordinate, nudged by ±ε; the slope between two forwards against the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from ...graph import Recording
from ...graph.recorder import as_before
from ..palette import BACKWARD, CHECK, CUSTOM, FORWARD, MUTED, RULE, TEXT, Ink
from ..stage import Control, Picture
from .drawing import GraphDrawing, Light, legend
from .stepper import LEAST_WIDTH, LINE, MARGIN, ROOM, GraphStepper

STEPS = [10.0 ** (-1 - half / 2) for half in range(21)]
STEPS_IN_SINGLE = 11  # of them make sense in single precision
MAX_COORDINATES = 6
TABLE, PLOT, REACH = 300, 150, 116  # widths and heights of its parts, in pixels
NUDGE = (
    ("▼", "value", FORWARD),
    ("▲", "gradient", BACKWARD),
    ("■ ···", "slope between the nudges", CHECK),
    ("╌╌", "slope the gradient claims", BACKWARD),
)
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # the tolerances of torch.autograd.gradcheck


class Verification(GraphStepper, mode="verification"):
    """One coordinate, nudged by ±ε: the slope between two forwards against the gradient."""

    title = "Nudge an input, compare the slope"
    interval = 900

    def prepare(self, against: Callable | None, names: Sequence[str] | None) -> None:
        self.coordinates = _coordinates(self.recording)
        if not self.coordinates:
            raise ValueError("no leaf holds real numbers with a gradient, so there is nothing to nudge.")
        self._base = self._evaluate()
        self.drawing = GraphDrawing(self.recording, ROOM - 4 * MARGIN - TABLE, max_per_layer=3)
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
        # With a graph, although none is wanted here: fn may ask for one, by a hook or a gradient of its own.
        with as_before(self.fn, self.inputs), torch.enable_grad():
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
            f"slope {_digits(answer.slope)}, gradient {_digits(answer.analytic)}, {_error(answer)}, "
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


def _coordinates(recording: Recording) -> list[tuple[int, int]]:
    """Some coordinates, taken in turn from all leaves: (node, position in the flattened tensor)."""
    leaves = [
        node for node in recording.of_kind("leaf") if node.tensor.is_floating_point() and node.tensor.numel()
    ]
    longest = max((node.tensor.numel() for node in leaves), default=0)
    turns = [(node.id, index) for index in range(longest) for node in leaves if index < node.tensor.numel()]
    return sorted(turns[:MAX_COORDINATES])


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


def _error(answer: Answer) -> str:
    """The error in words: of a small one the power of ten, for its digits are rounding and differ between machines."""
    if not 0 < answer.error < answer.tolerance / 100:
        return f"error {answer.error:.1e}"
    return f"error below 1e{math.ceil(math.log10(answer.error)):03d}"


def _digits(value: float) -> str:
    return f"{value + 0.0:.9g}"
