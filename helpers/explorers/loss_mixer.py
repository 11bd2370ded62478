"""Two losses on one trunk: what a weight, or a stop-gradient, does to the gradient they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import torch
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from ..functions import stop_gradient
from .palette import BACKWARD, CUSTOM, MUTED, RULE, TEXT, Ink
from .stage import Control, FigureExplorer, Picture, axes, change

WEIGHTS = [round(0.1 * step, 1) for step in range(21)]
STOPS = ("nowhere", "before loss 1", "before loss 2")
PLACES = 21
REACH = 3.0
GRID = np.linspace(-REACH * 1.15, REACH * 1.15, 27)
ARROW = 2.4  # length, in units of the plane, of the longest single gradient at weight 1


def first_bowl(shared: Tensor) -> Tensor:
    """Least at (-1.4, 0.6), and steeper along the second axis."""
    away = shared - shared.new_tensor([-1.4, 0.6])
    return (away.square() * shared.new_tensor([0.4, 1.2])).sum()


def second_bowl(shared: Tensor) -> Tensor:
    """Least at (1.5, 1.0), and steeper along the first axis."""
    away = shared - shared.new_tensor([1.5, 1.0])
    return (away.square() * shared.new_tensor([0.9, 0.4])).sum()


class LossMixer(FigureExplorer):
    """The pull of two weighted losses on two shared parameters: each gradient, their angle, and what reaches the trunk.

    The total is ``w1 * loss1 + w2 * loss2``; a stop-gradient may stand between the trunk and either loss. Arrows show
    minus the gradient: the way a step of gradient descent would go.

    Args:
        first, second: losses, from a tensor of two shared parameters to one number.
        path: two points between which the parameters can be moved.

    Attributes:
        gradients: the weighted gradients of loss 1, of loss 2, and of the total, each of shape (2,); NaN where a loss
            raises or its gradient is not finite, and then ``faults`` says why.

    Raises:
        ValueError: nowhere on the path does a loss return one number that depends on the parameters, or a point is not
            a pair.
    """

    title = "Two losses, one trunk"
    size = (720, 400)

    def __init__(
        self,
        first: Callable[[Tensor], Tensor] = first_bowl,
        second: Callable[[Tensor], Tensor] = second_bowl,
        path: tuple[tuple[float, float], tuple[float, float]] = ((-2.6, -2.0), (2.8, 2.2)),
    ) -> None:
        points = torch.tensor(path, dtype=torch.float64)
        if points.shape != (2, 2):
            raise ValueError(f"path must be two pairs of numbers; got shape {tuple(points.shape)}.")
        names = [f"{part / (PLACES - 1):.2f}" for part in range(PLACES)]
        super().__init__(
            Control("weight1", "weight of loss 1", WEIGHTS, start=10),
            Control("weight2", "weight of loss 2", WEIGHTS, start=10),
            Control("place", "shared parameters", list(range(PLACES)), names, start=9),
            Control("stop", "stop-gradient", STOPS, kind="choice"),
        )
        self.losses = (first, second)
        self._line = [torch.lerp(*points, part / (PLACES - 1)).requires_grad_() for part in range(PLACES)]
        sizes = []
        for number, loss in enumerate(self.losses, 1):
            pulls = [_pull(partial(loss, at), at) for at in self._line]
            if all(fault for _, fault in pulls):
                raise ValueError(
                    f"loss {number} must return one number that depends on the shared parameters, and have a gradient "
                    f"somewhere on the path; at its start it {pulls[0][1]}."
                )
            sizes += [pull.norm().item() for pull, fault in pulls if not fault]
        # A state, its gradients and faults: the picture asks for them many times.
        self._known: tuple = ({}, (), ())
        self._scale = ARROW / max(sizes) if max(sizes) > 0 else 1.0

    @property
    def shared(self) -> Tensor:
        """The shared parameters, shape (2,)."""
        return self._line[self["place"]].detach()

    @property
    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """What arrives at the trunk from loss 1, from loss 2, and from the weighted sum."""
        return self._now[1]

    @property
    def faults(self) -> tuple[str, str, str]:
        """Why loss 1, loss 2 and the total give no gradient at the present point; empty where they do."""
        return self._now[2]

    @property
    def _now(self) -> tuple:
        if self._known[0] != self.positions:
            self._known = (dict(self.positions), *self._measured())
        return self._known

    def _measured(self) -> tuple[tuple[Tensor, ...], tuple[str, ...]]:
        shared = self.shared.requires_grad_()
        weights = self["weight1"], self["weight2"]
        seen = [
            stop_gradient(shared) if self["stop"] == f"before loss {number}" else shared for number in (1, 2)
        ]

        def term(number: int) -> Tensor:
            return weights[number] * self.losses[number](seen[number])

        terms = (lambda: term(0), lambda: term(1), lambda: term(0) + term(1))
        pulls, faults = zip(*(_pull(each, shared) for each in terms), strict=True)
        return pulls, faults

    @property
    def angle(self) -> float:
        """The angle between the two gradients in degrees; NaN when either is zero or missing."""
        one, two, _ = self.gradients
        size = (one.norm() * two.norm()).item()
        if not size > 0:
            return math.nan
        return math.degrees(math.acos(max(-1.0, min(1.0, torch.dot(one, two).item() / size))))

    @cached_property
    def _heights(self) -> list[np.ndarray]:
        """Each loss over the plane, for its contours."""
        return [np.array([[_height(loss, x, y) for x in GRID] for y in GRID]) for loss in self.losses]

    def stage(self, picture: Picture) -> None:
        plane = axes(
            picture.figure,
            (0.06, 0.13, 0.55, 0.77),
            "The shared parameters",
            xlim=(-REACH * 1.15, REACH * 1.15),
            ylim=(-REACH * 0.95, REACH * 0.85),
            xlabel="first",
            ylabel="second",
        )
        plane.grid(False)
        for heights, dash, word in zip(self._heights, ("-", (0, (4, 3))), "12", strict=True):
            rows, columns = np.nonzero(np.isnan(heights))
            plane.plot(GRID[columns], GRID[rows], "x", color=RULE.light, markersize=4)
            if len(rows) == heights.size:
                continue
            plane.contour(
                GRID, GRID, heights, levels=8, colors=[RULE.light], linewidths=1.6, linestyles=[dash]
            )
            row, column = np.unravel_index(np.nanargmin(heights), heights.shape)
            x, y = GRID[column], GRID[row]
            if abs(x) < 0.8 * REACH and abs(y) < 0.8 * REACH:  # a loss without a minimum is least at the edge
                style = {"ha": "center", "va": "center", "color": MUTED.light, "fontsize": 12}
                plane.text(x, y, f"least loss {word}", **style)
        plane.plot(
            *torch.stack(self._line).detach().T.numpy(), color=MUTED.light, linewidth=1, linestyle=(0, (1, 3))
        )
        self._here = picture.move(*plane.plot([], [], "o", color=TEXT.light, markersize=9, zorder=6))
        self._arc = picture.move(*plane.plot([], [], color=TEXT.light, linewidth=1.2))
        self._degrees = picture.move(plane.text(0, 0, "", ha="center", va="center", fontsize=12, zorder=7))
        self._arrows, self._ends = [], {}
        for ink, dash, width in ((MUTED, "-", 2.2), (MUTED, (0, (4, 2)), 2.2), (BACKWARD, "-", 3.4)):
            style = {"color": ink.light, "linestyle": dash, "linewidth": width, "zorder": 5}
            arrow = FancyArrowPatch(
                (0, 0), (1, 1), arrowstyle="-|>", mutation_scale=16, shrinkA=0, shrinkB=0, **style
            )
            plane.add_patch(arrow)
            self._arrows.append(picture.move(arrow))
        self._column(picture)

    def _column(self, picture: Picture) -> None:
        panel = picture.figure.add_axes((0.645, 0, 0.355, 1), xlim=(0, 255), ylim=(400, 0))
        panel.axis("off")
        rows: tuple[tuple[str, Ink, str | tuple], ...] = (
            ("pull of loss 1", MUTED, "-"),
            ("pull of loss 2", MUTED, (0, (4, 2))),
            ("what the trunk gets", BACKWARD, "-"),
        )
        self._cells = []
        for row, (name, ink, dash) in enumerate(rows):
            y = 62 + 76 * row
            panel.plot(
                [0, 34], [y - 5, y - 5], color=ink.light, linestyle=dash, linewidth=3 if row == 2 else 2.2
            )
            panel.text(44, y, name, weight="bold", color=ink.light if row == 2 else TEXT.light)
            self._cells.append(picture.move(panel.text(44, y + 23, "")))
        panel.plot([0, 250], [272, 272], color=RULE.light, linewidth=1)
        if any(np.isnan(heights).any() for heights in self._heights):
            panel.text(0, 386, "× a loss has no value here", color=MUTED.light, fontsize=12)
        self._verdict = picture.move(panel.text(0, 302, "", weight="bold"))
        self._reason = picture.move(
            panel.text(0, 326, "", color=MUTED.light, fontsize=12, linespacing=1.5, va="top")
        )

    def move(self, picture: Picture) -> None:
        here = self.shared.numpy()
        pulls = [-gradient.numpy() * self._scale for gradient in self.gradients]
        change(self._here, xdata=here[:1], ydata=here[1:])
        for at, (arrow, pull) in enumerate(zip(self._arrows, pulls, strict=True)):
            ends = np.stack([here, here + np.nan_to_num(pull)])
            if not np.array_equal(ends, self._ends.get(at)):
                self._ends[at] = ends
                arrow.set_positions(*ends)
                arrow.set_alpha(float(np.ptp(ends, axis=0).max() > 1e-9))
        for number, (cell, gradient, fault) in enumerate(
            zip(self._cells, self.gradients, self.faults, strict=True), 1
        ):
            stopped = self["stop"] == f"before loss {number}" and not fault
            said = "stopped: gradient 0" if stopped else f"gradient of norm {gradient.norm().item():.2f}"
            change(
                cell,
                text="no gradient here" if fault else said,
                color=CUSTOM.light if stopped or fault else TEXT.light,
            )
        self._show_angle(here, pulls)
        verdict, reason = self.verdict
        change(self._verdict, text=verdict)
        change(self._reason, text=reason)

    def _show_angle(self, here: np.ndarray, pulls: list[np.ndarray]) -> None:
        one, two = (math.atan2(pull[1], pull[0]) for pull in pulls[:2])
        known = not math.isnan(self.angle)
        turn = (two - one + math.pi) % (2 * math.pi) - math.pi if known else 0.0
        # A weight changes the angle by rounding errors only, which are no reason to draw the arc again.
        arc = np.round(one + np.linspace(0, turn, 24), 3)
        radius, middle = 0.55 * known, one + turn / 2
        change(self._arc, xdata=here[0] + radius * np.cos(arc), ydata=here[1] + radius * np.sin(arc))
        place = np.round((here[0] - 0.5 * np.cos(middle), here[1] - 0.4 * np.sin(middle)), 3)
        change(self._degrees, position=tuple(place), text=f"{self.angle:.0f}°" if known else "")

    @property
    def verdict(self) -> tuple[str, str]:
        """How the two gradients stand to each other, in a word and in a sentence of two lines."""
        if any(self.faults):
            return (
                "no gradient here",
                "A loss raised an error or is not finite;\nthe sentence below has the details.",
            )
        if math.isnan(self.angle):
            return (
                "one voice only",
                "One gradient is zero, by its weight,\na stop-gradient, or its own minimum.",
            )
        cosine = math.cos(math.radians(self.angle))
        said = f"{self.angle:.0f}°, cosine {cosine:+.2f}"
        if cosine < -1e-9:
            return (
                f"conflict: {said}",
                "A step for one loss raises the other;\nin the sum, part of both cancels.",
            )
        return f"agreement: {said}", "A small step for either loss\nlowers the other as well."

    def describe(self) -> str:
        place = ", ".join(f"{each:.2f}" for each in self.shared.tolist())
        wrong = [f"loss {number} {fault}" for number, fault in enumerate(self.faults[:2], 1) if fault]
        if self.faults[2] and not wrong:
            wrong = [f"the total {self.faults[2]}"]
        if wrong:
            return f"At shared parameters ({place}) {'; '.join(wrong)}. The trunk gets no gradient."
        one, two, total = (gradient.norm().item() for gradient in self.gradients)
        stop = "" if self["stop"] == "nowhere" else f", with a stop-gradient {self['stop']}"
        return (
            f"Loss 1 with weight {self['weight1']:.1f} and loss 2 with weight {self['weight2']:.1f}{stop}: "
            f"gradients of norm {one:.2f} and {two:.2f}; the trunk gets a gradient of norm {total:.2f}; {self.verdict[0]}."
        )


def _pull(loss: Callable[[], Tensor], at: Tensor) -> tuple[Tensor, str]:
    """The gradient at ``at``, or NaN and what is wrong with the loss."""
    missing = torch.full((2,), math.nan, dtype=torch.float64)
    try:
        value = loss()
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            return missing, "does not return one number that depends on the shared parameters"
        (gradient,) = torch.autograd.grad(value, at)
    except Exception as error:
        return missing, f"raised {type(error).__name__}: {error}".split("\n")[0]
    if not gradient.isfinite().all():
        return missing, f"has the gradient ({', '.join(f'{each:g}' for each in gradient.tolist())})"
    return gradient, ""


def _height(loss: Callable[[Tensor], Tensor], x: float, y: float) -> float:
    """A loss at one point; NaN, drawn as a gap, where it raises or is not finite."""
    try:
        height = loss(torch.tensor([x, y], dtype=torch.float64)).item()
    except Exception:
        return math.nan
    return height if math.isfinite(height) else math.nan
