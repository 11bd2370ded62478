"""Injection: one run, forward then backward; a custom node injects its own gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...graph import Recording, numbers
from ..stage import Control, Picture
from .drawing import GraphDrawing, legend
from .stepper import (
    HEAD,
    LEAST_WIDTH,
    MARGIN,
    ROOM,
    GraphStepper,
    few,
    lights,
    listed,
    marks,
    phase_heads,
)


class Injection(GraphStepper, mode="injection"):
    """One run: forward, then backward, one node at a time."""

    title = "Forward flows down, backward flows up"

    def prepare(self, against: Callable | None, names: Sequence[str] | None) -> None:
        self.drawing = GraphDrawing(self.recording, ROOM - 2 * MARGIN)
        width = max(LEAST_WIDTH, self.drawing.width + 2 * MARGIN)
        self._foot = HEAD + self.drawing.height + 3 * MARGIN
        under = legend(None, MARGIN, 0, width - 2 * MARGIN, marks(self.recording))
        self.size = (math.ceil(width), math.ceil(self._foot + under + 6))
        last = len(self.recording.events) + 1
        labels = ["0, ready", *(f"{step} of {last - 1}" for step in range(1, last)), "all done"]
        super(GraphStepper, self).__init__(Control("step", "step", list(range(last + 1)), labels, start=last))

    def stage(self, picture: Picture) -> None:
        panel = self._panel(picture)
        width = self.size[0]
        self.drawing.stage(picture, panel, (width - self.drawing.width) / 2, HEAD + MARGIN)
        self._heads = phase_heads(picture, panel, 20)
        legend(panel, MARGIN, self._foot, width - 2 * MARGIN, marks(self.recording))

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
            own = f" {few(custom)} {'is' if len(custom) == 1 else 'are'} custom." if custom else ""
            return f"Ready: {len(self.recording)} nodes, {len(events)} steps.{own} Forward comes first."
        if step > len(events):
            return f"All {len(events)} steps done. {_outcome(self.recording)}"
        event = events[step - 1]
        return f"Step {step} of {len(events)}, {event.phase}: {self.recording.sentence(event)}"


def _outcome(recording: Recording) -> str:
    outputs = [f"{node.name} = {numbers(node.value)}" for node in recording.of_kind("output")]
    leaves = [
        f"{node.name} has {'none' if node.gradient is None else numbers(node.gradient)}"
        for node in recording.of_kind("leaf")
    ]
    custom = [node.name for node in recording.of_kind("custom")]
    who = f" {few(custom)} injected {'its' if len(custom) == 1 else 'their'} own gradient." if custom else ""
    return f"Forward gave {listed(outputs)}; backward brought the gradients: {listed(leaves)}.{who}"
