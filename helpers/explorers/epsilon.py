"""Finite differences on a slider: as the step shrinks, the error falls, and then rises again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from torch import Tensor

from ..numerics import METHODS, derivatives, error_curve
from .palette import CHECK, GROUND, MUTED, TEXT, Ink
from .stage import Control, FrameExplorer, Picture, axes

STEPS = [10.0 ** (-16 + quarter / 4) for quarter in range(65)]
FLOOR, CEILING = 1e-18, 1e3  # of the drawn relative error; an error of 0 is drawn at the floor
DTYPES = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Look:
    """How one of the schemes of ``helpers.numerics`` is drawn."""

    method: str
    name: str
    ink: Ink
    dash: str | tuple
    marker: str


LOOKS = (
    Look("forward", "forward difference", MUTED, (0, (5, 2)), "o"),
    Look("central", "central difference", CHECK, "-", "s"),
    Look("complex", "complex step", TEXT, (0, (1.5, 1.5)), "D"),
)


class EpsilonExplorer(FrameExplorer):
    """The error of three numerical derivatives against the step ε, with the theory's lines and the digits.

    Args:
        fn: a function of one number (a 0-d tensor) that returns one number; autograd gives the value to compare with.
            The complex step needs a function that takes complex numbers too.
        x: the point.
        dtype: ``torch.float64`` or ``torch.float32``, in which ``fn`` is evaluated.
        eps: where the slider starts.

    Attributes:
        exact: the derivative by autograd in float64, at ``x`` rounded to ``dtype``.
        curves: ``helpers.numerics.error_curve`` of each method.

    Raises:
        ValueError: ``dtype`` is not allowed, or ``fn`` does not return one number with a finite derivative.
    """

    title = "How small should ε be?"
    size = (720, 400)

    def __init__(
        self,
        fn: Callable[[Tensor], Tensor] = torch.exp,
        x: float = 1.0,
        dtype: torch.dtype = torch.float64,
        eps: float = 1e-6,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype is {dtype}; allowed: {', '.join(map(str, DTYPES))}.")
        if not (isinstance(eps, (int, float)) and eps > 0):
            raise ValueError(f"eps is {eps}; it must be a number greater than 0.")
        start = min(range(len(STEPS)), key=lambda at: abs(math.log(STEPS[at] / eps)))
        super().__init__(Control("eps", "step ε", STEPS, [f"{step:.1e}" for step in STEPS], start))
        self.fn, self.x = fn, torch.tensor(float(x), dtype=dtype)
        self.name = getattr(fn, "__name__", type(fn).__name__).replace("<lambda>", "fn")
        value = fn(self.x)
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"fn must return one number, a tensor with one element; it returned {shape}.")
        (self.exact,) = derivatives(fn, self.x, 1)
        if not math.isfinite(self.exact):
            raise ValueError(
                f"the derivative of fn at x = {float(x):g} is {self.exact}; choose another point."
            )
        self.curves = error_curve(fn, self.x, dtype, STEPS, methods=[look.method for look in LOOKS])
        self._places = 15 if dtype == torch.float64 else 8

    def error(self, method: str) -> float:
        """Relative error of a method at the chosen step; NaN where it has no value."""
        return self.curves[method].errors[self.positions["eps"]] / self._scale

    @property
    def _scale(self) -> float:
        return abs(self.exact) or 1.0

    def stage(self, picture: Picture) -> None:
        plot = axes(
            picture.figure,
            (0.085, 0.145, 0.545, 0.74),
            "Relative error of the estimate",
            xscale="log",
            yscale="log",
            xlim=(STEPS[0] / 1.5, 1.6),
            ylim=(FLOOR / 8, CEILING),
            xlabel="step ε",
        )
        for axis in (plot.xaxis, plot.yaxis):
            axis.set_minor_locator(NullLocator())
        plot.set_xticks([1e-16, 1e-12, 1e-8, 1e-4, 1], ["1e−16", "1e−12", "1e−8", "1e−4", "1"])
        plot.set_yticks(
            [FLOOR, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1],
            ["exact", "1e−15", "1e−12", "1e−9", "1e−6", "1e−3", "1"],
        )
        self._theory(plot)
        for look in LOOKS:
            curve = self.curves[look.method]
            plot.plot(
                STEPS,
                [self._within_axes(error) for error in curve.errors],
                color=look.ink.light,
                linestyle=look.dash,
            )
            if look.method != "complex":
                step, error = curve.best
                star = {"markersize": 15, "color": look.ink.light, "markeredgecolor": GROUND.light}
                plot.plot(step, self._within_axes(error), "*", zorder=4, **star)
        gaps = sorted({*self.curves["forward"].gaps, *self.curves["central"].gaps})
        plot.plot(gaps, [CEILING / 6] * len(gaps), "x", color=TEXT.light, markersize=7, zorder=4)
        self._chosen = picture.move(plot.axvline(1, color=TEXT.light, linewidth=1))
        edge = {"markersize": 9, "markeredgecolor": GROUND.light, "zorder": 5}
        self._points = [
            picture.move(*plot.plot([], [], look.marker, color=look.ink.light, **edge)) for look in LOOKS
        ]
        self._column(picture)

    def _theory(self, plot: Axes) -> None:
        """Truncation, from Taylor's remainder, and round-off, as ``error_curve`` has them."""
        forward, central = self.curves["forward"], self.curves["central"]
        unit = torch.finfo(self.x.dtype).eps
        for curve, name, at, above in (
            (central.round_off, "round-off, u/ε", 10 * unit, 100),
            (forward.truncation, "truncation, ε", 10**-15.7, 10**4),
            (central.truncation, "truncation, ε²", 10**-3.2, 1e-3),
        ):
            if not any(curve):
                continue
            plot.plot(
                STEPS,
                [size / self._scale for size in curve],
                color=MUTED.light,
                linewidth=1,
                linestyle=(0, (1, 2)),
            )
            nearest = min(range(len(STEPS)), key=lambda k, at=at: abs(math.log(STEPS[k] / at)))
            height = curve[nearest] / self._scale * above
            if FLOOR < height < CEILING:
                plot.text(at, height, name, color=MUTED.light, fontsize=12, va="center")

    def _within_axes(self, error: float) -> float:
        return error if math.isnan(error) else min(max(error / self._scale, FLOOR), CEILING)

    def _column(self, picture: Picture) -> None:
        panel = picture.figure.add_axes((0.665, 0, 0.335, 1), xlim=(0, 1), ylim=(400, 0))
        panel.axis("off")
        panel.text(0, 38, f"{self.name}′({self.x.item():g})", weight="bold", fontsize=14)
        panel.text(0, 64, "autograd, float64", color=MUTED.light, fontsize=12)
        panel.text(0, 84, "".join(digits(self.exact, self.exact, self._places)), family="DejaVu Sans Mono")
        panel.text(0, 388, "★ best step    × no value", color=MUTED.light, fontsize=12)
        self._rows = []
        for row, look in enumerate(LOOKS):
            top = 128 + 82 * row
            panel.plot([0, 0.13], [top - 4, top - 4], color=look.ink.light, linestyle=look.dash)
            panel.plot(0.065, top - 4, look.marker, color=look.ink.light, markersize=8)
            panel.text(0.17, top, look.name, color=look.ink.light, weight="bold")
            mono = {"family": "DejaVu Sans Mono"}
            right = picture.move(
                panel.text(0, top + 24, "", color=CHECK.light, fontsize=13, weight="bold", **mono)
            )
            wrong = picture.move(panel.text(0, top + 24, "", color=MUTED.light, fontsize=13, **mono))
            note = picture.move(panel.text(0, top + 44, "", color=MUTED.light, fontsize=12))
            self._rows.append((right, wrong, note))

    def move(self, picture: Picture) -> None:
        at, step = self.positions["eps"], self["eps"]
        self._chosen.set_xdata([step, step])
        for look, point, (right, wrong, note) in zip(LOOKS, self._points, self._rows, strict=True):
            curve = self.curves[look.method]
            point.set_data([step], [self._within_axes(curve.errors[at])])
            good, bad, said = "", "no value", _short(curve.gaps.get(step, ""), 34)
            if step not in curve.gaps:
                estimate = float(METHODS[look.method](self.fn, self.x, eps=step))
                good, bad = digits(estimate, self.exact, self._places)
                said = f"relative error {self.error(look.method):.1e}"
            right.set_text(good)
            wrong.set_text("\u00a0" * len(good) + bad)
            note.set_text(said)

    def describe(self) -> str:
        parts = []
        for look in LOOKS:
            fault = self.curves[look.method].gaps.get(self["eps"])
            had = f"no value ({fault})" if fault else f"relative error {self.error(look.method):.0e}"
            parts.append(f"{look.name} has {had}")
        step, error = self.curves["central"].best
        dtype = str(self.x.dtype).removeprefix("torch.")
        best = (
            "There is no step with a central difference"
            if math.isnan(error)
            else f"The central difference is best near {step:.0e}, with {error / self._scale:.0e}"
        )
        return (
            f"Derivative of {self.name} at {self.x.item():g} in {dtype}, step {self['eps']:.1e}: {', '.join(parts)}. "
            f"{best}."
        )


def digits(value: float, exact: float, places: int = 15) -> tuple[str, str]:
    """``value`` as text, cut where it begins to differ from ``exact``: the right digits, and the others.

    >>> digits(3.14162, 3.14159, places=5)
    ('3.141', '62')
    """
    text, _, power = f"{value:.{places}e}".partition("e")
    true, _, true_power = f"{exact:.{places}e}".partition("e")
    same = next(
        (at for at, pair in enumerate(zip(text, true, strict=False)) if pair[0] != pair[1]), len(text)
    )
    same *= power == true_power
    return text[:same], text[same:] + (f"·10^{int(power)}" if int(power) else "")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
