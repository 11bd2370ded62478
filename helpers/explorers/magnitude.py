"""One function written twice, naively and stably, over twelve decades of input and four dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from torch import Tensor

from helpers.explorers.palette import BACKWARD, CUSTOM, FORWARD, GROUND, MUTED, TEXT
from helpers.explorers.stage import Control, FrameExplorer, Picture, axes
from helpers.functions import log1mexp, logsumexp, safe_norm, softplus

MAGNITUDES = [10.0 ** (-8 + third / 3) for third in range(37)]
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
EXACT, CEILING = 1e-18, 1e2  # of the drawn relative error; an error of 0 is drawn at EXACT


def short(dtype: torch.dtype) -> str:
    """The dtype's name without its module."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Pair:
    """The same mathematics twice, as functions of one number m, the magnitude.

    Attributes:
        name: the formula, as shown.
        naive, stable: take a 0-d tensor and return one; differentiable by autograd.
    """

    name: str
    naive: Callable[[Tensor], Tensor]
    stable: Callable[[Tensor], Tensor]


def _beside_zero(m: Tensor) -> Tensor:
    return torch.stack([m, torch.zeros_like(m)])


PAIRS = {
    "softplus": Pair("log(1 + exp(m))", lambda m: torch.log(1 + torch.exp(m)), softplus),
    "logsumexp": Pair(
        "log(exp(m) + exp(0))",
        lambda m: _beside_zero(m).exp().sum().log(),
        lambda m: logsumexp(_beside_zero(m), dim=0),
    ),
    "log1mexp": Pair("log(1 − exp(−m))", lambda m: torch.log(1 - torch.exp(-m)), log1mexp),
    "norm": Pair(
        "√(m² + m²)",
        lambda m: torch.stack([m, m]).square().sum().sqrt(),
        lambda m: safe_norm(torch.stack([m, m])),
    ),
}


@dataclass(frozen=True)
class Readings:
    """What one version gave at every magnitude; an array each, NaN where it raised."""

    value: np.ndarray
    gradient: np.ndarray
    value_error: np.ndarray
    gradient_error: np.ndarray
    fault: dict[int, str]


class MagnitudeExplorer(FrameExplorer):
    """Value, gradient and error of a naive and a stable version against the input's magnitude, in four dtypes.

    Errors are relative to the stable version in float64 at the input as the dtype rounds it.

    Args:
        pair: a name from ``PAIRS`` (softplus, logsumexp, log1mexp, norm), or a ``Pair`` of your own.
        magnitude: where the slider starts, 1e-8 to 1e4.
        dtype: float16, bfloat16, float32 or float64.

    Attributes:
        readings: ``readings[dtype]["naive" | "stable"]``.

    Raises:
        ValueError: an unknown pair, dtype or magnitude.
    """

    size = (720, 452)

    def __init__(
        self, pair: str | Pair = "softplus", magnitude: float = 100.0, dtype: torch.dtype = torch.float32
    ) -> None:
        if isinstance(pair, str) and pair not in PAIRS:
            raise ValueError(f"pair is {pair!r}; allowed: {', '.join(PAIRS)}, or a Pair of your own.")
        if not MAGNITUDES[0] <= magnitude <= MAGNITUDES[-1] * (1 + 1e-9):
            raise ValueError(f"magnitude is {magnitude}; allowed: 1e-8 to 1e4.")
        if dtype not in DTYPES:
            raise ValueError(f"dtype is {dtype}; allowed: {', '.join(map(short, DTYPES))}.")
        super().__init__(
            Control("magnitude", "magnitude m", MAGNITUDES, [f"{each:.2g}" for each in MAGNITUDES]),
            Control("dtype", "dtype", DTYPES, list(map(short, DTYPES)), kind="choice"),
        )
        nearest = min(range(len(MAGNITUDES)), key=lambda at: abs(math.log(MAGNITUDES[at] / magnitude)))
        self.positions["magnitude"] = nearest
        self.choose(dtype=dtype)
        self.pair = PAIRS[pair] if isinstance(pair, str) else pair
        self.title = f"{self.pair.name}: naive and stable"
        self.readings = {each: self._read(each) for each in DTYPES}

    def _read(self, dtype: torch.dtype) -> dict[str, Readings]:
        rounded = torch.tensor(MAGNITUDES, dtype=torch.float64).to(dtype)
        exact = _run(self.pair.stable, rounded.double())
        return {
            name: _compare(_run(getattr(self.pair, name), rounded), exact) for name in ("naive", "stable")
        }

    @property
    def now(self) -> dict[str, Readings]:
        """The readings of both versions in the chosen dtype."""
        return self.readings[self["dtype"]]

    def stage(self, picture: Picture) -> None:
        finite = [
            np.abs(getattr(each["stable"], quantity))
            for each in self.readings.values()
            for quantity in ("value", "gradient")
        ]
        positive = np.concatenate([each[np.isfinite(each) & (each > 0)] for each in finite])
        reach = (max(positive.min() / 10, 1e-12), min(positive.max() * 10, 1e9)) if len(positive) else (1e-9, 1e9)
        self._panels = []
        for column, (quantity, ink) in enumerate((("value", FORWARD), ("gradient", BACKWARD))):
            left = 0.085 + 0.5 * column
            title = f"|{quantity}|"
            top = self._plot(picture, (left, 0.66, 0.405, 0.275), title, reach)
            bottom = self._plot(picture, (left, 0.285, 0.405, 0.275), f"relative error of {quantity}", None)
            bottom.set_xlabel("input magnitude m", labelpad=1)
            self._panels.append((quantity, top, *self._artists(picture, top, ink)))
            self._panels.append((f"{quantity}_error", bottom, *self._artists(picture, bottom, ink)))
        self._table(picture)

    def _plot(self, picture: Picture, place: tuple, title: str, reach: tuple | None) -> Axes:
        plot = axes(
            picture.figure,
            place,
            xscale="log",
            yscale="log",
            xlim=(MAGNITUDES[0], MAGNITUDES[-1]),
            ylim=reach or (EXACT / 5, CEILING),
        )
        plot.set_title(title, fontsize=13, pad=5)
        plot.xaxis.set_minor_locator(NullLocator())
        plot.yaxis.set_minor_locator(NullLocator())
        plot.set_xticks([1e-8, 1e-4, 1, 1e4], ["1e−8", "1e−4", "1", "1e4"])
        if reach:
            low, high = math.ceil(math.log10(reach[0])), math.floor(math.log10(reach[1]))
            ticks = [10.0**power for power in range(low, high + 1, max(1, (high - low) // 3))]
            plot.set_yticks(ticks, [f"{tick:.0e}".replace("e+0", "e").replace("e-0", "e−") for tick in ticks])
        else:
            plot.set_yticks([EXACT, 1e-12, 1e-6, 1], ["exact", "1e−12", "1e−6", "1"])
        return plot

    def _artists(self, picture: Picture, plot: Axes, ink) -> tuple:
        """The shaded regions, both curves, both points, and the line at the chosen magnitude."""
        regions = [
            picture.move(
                plot.fill_between(
                    [], [], 0, color=MUTED.light, alpha=0.16, linewidth=0, transform=plot.get_xaxis_transform()
                )
            )
        ]
        naive = picture.move(*plot.plot([], [], color=MUTED.light, linewidth=4.5, alpha=0.55))
        stable = picture.move(*plot.plot([], [], **ink.line))
        chosen = picture.move(plot.axvline(1, color=TEXT.light, linewidth=1))
        points = [
            picture.move(*plot.plot([], [], marker, color=colour, markersize=size, markeredgecolor=GROUND.light))
            for marker, colour, size in (("X", MUTED.light, 10), (ink.marker, ink.light, 8))
        ]
        return regions, naive, stable, chosen, points
