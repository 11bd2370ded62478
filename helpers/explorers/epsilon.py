"""Finite differences on a slider: as the step shrinks, the error falls, and then rises again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator
from torch import Tensor

from helpers.explorers.palette import CHECK, GROUND, MUTED, TEXT, Ink
from helpers.explorers.stage import Control, FrameExplorer, Picture, axes
from helpers.numerics import central_difference, complex_step, forward_difference

STEPS = [10.0 ** (-16 + quarter / 4) for quarter in range(65)]
FLOOR, CEILING = 1e-18, 1e3  # of the drawn relative error; an error of 0 is drawn at the floor
DTYPES = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Scheme:
    """A way to estimate a derivative, and how it is drawn."""

    name: str
    estimate: Callable[..., Tensor]
    ink: Ink
    dash: str | tuple
    marker: str


SCHEMES = (
    Scheme("forward difference", forward_difference, MUTED, (0, (5, 2)), "o"),
    Scheme("central difference", central_difference, CHECK, "-", "s"),
    Scheme("complex step", complex_step, TEXT, (0, (1.5, 1.5)), "D"),
)


@dataclass(frozen=True)
class Estimate:
    """What a scheme gave at one step: a value, or the reason why there is none."""

    value: float
    error: float
    fault: str = ""


class EpsilonExplorer(FrameExplorer):
    """The error of three numerical derivatives against the step ε, with the theory's lines and the digits.

    Args:
        fn: a function of one number (a 0-d tensor) that returns one number; differentiable by autograd, which gives the
            value to compare with. Complex inputs give the complex step as well.
        x: the point.
        dtype: ``torch.float64`` or ``torch.float32``, in which ``fn`` is evaluated.
        eps: where the slider starts.

    Attributes:
        exact: the derivative by autograd in float64 at ``x`` rounded to ``dtype``.
        estimates: for each scheme's name, one ``Estimate`` per step.

    Raises:
        ValueError: ``dtype`` is not allowed, ``fn`` does not return one number, or autograd finds no finite derivative.
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
        labels = [f"{step:.1e}" for step in STEPS]
        super().__init__(Control("eps", "step ε", STEPS, labels))
        self.positions["eps"] = min(
            range(len(STEPS)), key=lambda at: abs(math.log10(STEPS[at]) - math.log10(eps))
        )
        self.fn, self.dtype = fn, dtype
        self._places = 15 if dtype == torch.float64 else 8
        self.x = torch.tensor(x, dtype=dtype)
        self.name = getattr(fn, "__name__", type(fn).__name__).replace("<lambda>", "fn")
        self.exact, *self._higher = derivatives(fn, self.x.double())
        self.estimates = {
            scheme.name: [self._estimate(scheme.estimate, step) for step in STEPS] for scheme in SCHEMES
        }

    def _estimate(self, scheme: Callable[..., Tensor], eps: float) -> Estimate:
        try:
            value = float(scheme(self.fn, self.x, eps=eps))
        except Exception as error:  # whatever a learner's function raises belongs into the picture
            return Estimate(math.nan, math.nan, f"{type(error).__name__}: {error}".split("\n")[0][:90])
        if not math.isfinite(value):
            return Estimate(value, math.nan, f"the estimate is {value}")
        return Estimate(value, abs(value - self.exact) / (abs(self.exact) or 1.0))

    def best(self, scheme: str) -> tuple[float, float]:
        """The step with the smallest relative error, and that error; NaN where no estimate is finite."""
        pairs = [
            (each.error, step)
            for each, step in zip(self.estimates[scheme], STEPS, strict=True)
            if not each.fault
        ]
        error, step = min(pairs, default=(math.nan, math.nan))
        return step, error

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
            axis.set_major_locator(LogLocator(numticks=7))
            axis.set_minor_locator(NullLocator())
        plot.set_xticks([1e-16, 1e-12, 1e-8, 1e-4, 1], ["1e−16", "1e−12", "1e−8", "1e−4", "1"])
        plot.set_yticks(
            [FLOOR, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1],
            ["exact", "1e−15", "1e−12", "1e−9", "1e−6", "1e−3", "1"],
        )
        self._theory(plot)
        for scheme in SCHEMES:
            errors = [max(each.error, FLOOR) for each in self.estimates[scheme.name]]
            plot.plot(STEPS, errors, color=scheme.ink.light, linestyle=scheme.dash)
            step, error = self.best(scheme.name)
            if scheme is not SCHEMES[2] and math.isfinite(error):
                plot.plot(
                    step,
                    max(error, FLOOR),
                    marker="*",
                    markersize=15,
                    color=scheme.ink.light,
                    markeredgecolor=GROUND.light,
                    zorder=4,
                )
        gaps = [
            step
            for at, step in enumerate(STEPS)
            if any(self.estimates[scheme.name][at].fault for scheme in SCHEMES[:2])
        ]
        plot.plot(gaps, [CEILING / 6] * len(gaps), "x", color=TEXT.light, markersize=7, zorder=4)
        self._chosen = picture.move(plot.axvline(1, color=TEXT.light, linewidth=1))
        self._points = [
            picture.move(
                *plot.plot(
                    [],
                    [],
                    scheme.marker,
                    color=scheme.ink.light,
                    markersize=9,
                    markeredgecolor=GROUND.light,
                    zorder=5,
                )
            )
            for scheme in SCHEMES
        ]
        self._column(picture)

    def _theory(self, plot: Axes) -> None:
        """Truncation and round-off as the theory has them: Taylor's remainder, and u·|f|/ε."""
        scale = abs(self.exact) or 1.0
        unit = torch.finfo(self.dtype).eps / 2
        lines = [(unit * abs(float(self.fn(self.x.double()))), -1, "round-off, u/ε", 20 * unit, 100)]
        names = (("truncation, ε", 2, 10**-15.7, 10**4), ("truncation, ε²", 6, 10**-3.2, 1e-3))
        for order, (derivative, (name, factor, at, above)) in enumerate(
            zip(self._higher, names, strict=False), 1
        ):
            lines.append((abs(derivative) / factor, order, name, at, above))
        for size, power, name, at, above in lines:
            height = size / scale * at**power * above
            if size and FLOOR < height < CEILING:
                curve = [size / scale * step**power for step in STEPS]
                plot.plot(STEPS, curve, color=MUTED.light, linewidth=1, linestyle=(0, (1, 2)))
                plot.text(at, height, name, color=MUTED.light, fontsize=12, va="center")

    def _column(self, picture: Picture) -> None:
        panel = picture.figure.add_axes((0.665, 0, 0.335, 1), xlim=(0, 1), ylim=(400, 0))
        panel.axis("off")
        panel.text(0, 38, f"{self.name}′({self.x.item():g})", weight="bold", fontsize=14)
        panel.text(0, 64, "autograd, float64", color=MUTED.light, fontsize=12)
        panel.text(0, 84, "".join(digits(self.exact, self.exact, self._places)), family="DejaVu Sans Mono")
        panel.text(0, 388, "★ best step    × no value", color=MUTED.light, fontsize=12)
        self._rows = []
        for row, scheme in enumerate(SCHEMES):
            top = 128 + 82 * row
            panel.plot([0, 0.13], [top - 4, top - 4], color=scheme.ink.light, linestyle=scheme.dash)
            panel.plot(0.065, top - 4, scheme.marker, color=scheme.ink.light, markersize=8)
            panel.text(0.17, top, scheme.name, color=scheme.ink.light, weight="bold")
            mono = {"family": "DejaVu Sans Mono"}
            right = picture.move(
                panel.text(0, top + 24, "", color=CHECK.light, fontsize=13, weight="bold", **mono)
            )
            wrong = picture.move(panel.text(0, top + 24, "", color=MUTED.light, fontsize=13, **mono))
            note = picture.move(panel.text(0, top + 44, "", color=MUTED.light, fontsize=12))
            self._rows.append((right, wrong, note))

    def move(self, picture: Picture) -> None:
        at = self.positions["eps"]
        self._chosen.set_xdata([STEPS[at], STEPS[at]])
        for scheme, point, (right, wrong, note) in zip(SCHEMES, self._points, self._rows, strict=True):
            estimate = self.estimates[scheme.name][at]
            point.set_data(
                [STEPS[at]], [math.nan if estimate.fault else min(max(estimate.error, FLOOR), CEILING)]
            )
            good, bad = ("", "") if estimate.fault else digits(estimate.value, self.exact, self._places)
            right.set_text(good)
            wrong.set_text("\u00a0" * len(good) + bad or "no value")
            note.set_text(_short(estimate.fault, 34) or f"relative error {estimate.error:.1e}")

    def describe(self) -> str:
        at = self.positions["eps"]
        parts = [
            f"{name} has no value ({each[at].fault})"
            if each[at].fault
            else f"{name} has relative error {each[at].error:.0e}"
            for name, each in self.estimates.items()
        ]
        step, error = self.best("central difference")
        return (
            f"Derivative of {self.name} at {self.x.item():g} in {str(self.dtype).removeprefix('torch.')}, step {STEPS[at]:.1e}: "
            f"{', '.join(parts)}. The central difference is best near {step:.0e}, with {error:.0e}."
        )


def derivatives(fn: Callable[[Tensor], Tensor], x: Tensor) -> list[float]:
    """First, second and third derivative of ``fn`` at ``x`` by autograd; fewer if it cannot be differentiated so often.

    Raises:
        ValueError: ``fn`` does not return one number, or its first derivative is missing or not finite.
    """
    x = x.detach().requires_grad_()
    value = fn(x)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ValueError(
            f"fn must return one number (a tensor with one element); got {getattr(value, 'shape', type(value))}."
        )
    found: list[float] = []
    while len(found) < 3:
        try:
            (value,) = torch.autograd.grad(value, x, create_graph=True)
        except RuntimeError:
            break
        found.append(value.item())
    if not found or not math.isfinite(found[0]):
        raise ValueError(
            f"autograd has no finite derivative of fn at x = {x.item():g}: {found or 'no graph from x to fn(x)'}."
        )
    return found


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
