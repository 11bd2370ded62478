"""What the modes of the graph stepper share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ...graph import Event, Recording, record
from ...graph.recorder import stand_in
from ..palette import BACKWARD, CUSTOM, FORWARD, MUTED, TEXT, Ink
from ..stage import FrameExplorer, Picture
from .drawing import Light

MARGIN, HEAD, LINE = 10, 40, 23  # of every picture, in pixels
LEAST_WIDTH, ROOM = 640, 720  # of a picture, in pixels: at least, and where it can be kept to


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
    modes: ClassVar[dict[str, type[GraphStepper]]] = {}

    def __init_subclass__(cls, mode: str) -> None:
        GraphStepper.modes[mode] = cls

    def __new__(cls, fn: Callable, *inputs: Any, mode: str = "injection", **_: Any) -> GraphStepper:
        if mode not in cls.modes:
            raise ValueError(f"mode is {mode!r}; allowed: {', '.join(cls.modes)}.")
        return super().__new__(cls.modes[mode])

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


def phase_heads(picture: Picture, panel: Axes, y: float) -> dict[str, Artist]:
    """The word above a graph for each phase of a run."""
    style = {"fontsize": 15, "weight": "bold", "va": "center"}
    words = {
        "ready": ("ready", MUTED),
        "forward": ("▼ forward", FORWARD),
        "backward": ("▲ backward", BACKWARD),
        "done": ("done", TEXT),
    }
    return {
        phase: picture.move(panel.text(MARGIN, y, word, color=ink.light, **style))
        for phase, (word, ink) in words.items()
    }


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


def marks(recording: Recording) -> list[tuple[str, str, Ink]]:
    marks = [("▼", "value going forward", FORWARD), ("▲", "gradient going back", BACKWARD)]
    if recording.of_kind("custom"):
        marks.append(("⬢ ◆", "custom node, gradient it injects", CUSTOM))
    return marks


def listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def few(custom: Sequence[str]) -> str:
    return listed(custom) if len(custom) <= 3 else f"{len(custom)} custom nodes"
