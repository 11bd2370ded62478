"""One function written twice, naively and stably, over twelve decades of input and four dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import NullLocator
from torch import Tensor

from ..functions import log1mexp, logsumexp, safe_norm, softplus
from .palette import BACKWARD, FORWARD, MUTED, PANEL, RULE, TEXT, Ink
from .stage import Control, FrameExplorer, Picture, axes

MAGNITUDES = [10.0 ** (-8 + quarter / 4) for quarter in range(49)]
STOPS = MAGNITUDES[::2]
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
EXACT, CEILING = 1e-18, 1e2  # of the drawn relative error; an error of 0 is drawn at EXACT
NAIVE = {"color": MUTED.light, "linewidth": 4.5, "alpha": 0.6}
SHADES = {
    kind: {"facecolor": PANEL.light, "edgecolor": MUTED.light, "hatch": hatch, "linewidth": 0}
    for kind, hatch in (("overflow", "////"), ("underflow", "----"))
}


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
class Panel:
    """One of the four plots: what it shows, and the artists that take turns in it."""

    quantity: str
    drawings: dict[torch.dtype, list[Artist]]
    lines: list[Artist]
    point: Artist


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
            Control("dtype", "dtype", DTYPES, list(map(short, DTYPES)), kind="choice"),
            Control("magnitude", "magnitude m", STOPS, [f"{each:.1e}" for each in STOPS]),
        )
        nearest = min(range(len(STOPS)), key=lambda at: abs(math.log(STOPS[at] / magnitude)))
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
        self._panels = []
        for column, (quantity, ink) in enumerate((("value", FORWARD), ("gradient", BACKWARD))):
            left = 0.075 + 0.5 * column
            low, high = self._reach(quantity)
            ticks = [10.0**power for power in range(low, high + 1, max(1, (high - low) // 3))]
            top = _plot(picture, (left, 0.665, 0.41, 0.27), f"|{quantity}|", (10.0**low, 10.0**high))
            top.set_yticks(ticks, map(_power, ticks))
            top.set_xticklabels([])
            bottom = _plot(
                picture, (left, 0.31, 0.41, 0.27), f"relative error of {quantity}", (EXACT / 5, CEILING)
            )
            bottom.set_yticks([EXACT, 1e-12, 1e-6, 1], ["exact", "1e−12", "1e−6", "1"])
            bottom.set_xlabel("input magnitude m", labelpad=1)
            self._panels += [
                self._panel(picture, top, quantity, ink),
                self._panel(picture, bottom, f"{quantity}_error", ink),
            ]
        self._cells = _table(picture)

    def _panel(self, picture: Picture, plot: Axes, quantity: str, ink: Ink) -> Panel:
        """One drawing per dtype and one line per stop, so that none of them is drawn twice; and a point."""
        drawings = {dtype: self._curves(plot, quantity, ink, dtype) for dtype in DTYPES}
        lines = [plot.axvline(stop, color=TEXT.light, linewidth=1) for stop in STOPS]
        (point,) = plot.plot([], [], **ink.point, zorder=5)
        picture.move(*(artist for each in drawings.values() for artist in each), *lines, point)
        return Panel(quantity, drawings, lines, point)

    def _curves(self, plot: Axes, quantity: str, ink: Ink, dtype: torch.dtype) -> list[Artist]:
        made: list[Artist] = []
        for kind, where in self.regions(quantity.removesuffix("_error"), dtype).items():
            region = PolyCollection(
                _spans(where), transform=plot.get_xaxis_transform(), zorder=1, **SHADES[kind]
            )
            made.append(plot.add_collection(region, autolim=False))
        for name, style in (("naive", NAIVE), ("stable", ink.line)):
            made += plot.plot(MAGNITUDES, _drawn(self.readings[dtype][name], quantity), **style)
        return made

    def _reach(self, quantity: str) -> tuple[int, int]:
        """Powers of ten between which every stable reading lies."""
        sizes = np.abs(np.concatenate([getattr(each["stable"], quantity) for each in self.readings.values()]))
        sizes = sizes[np.isfinite(sizes) & (sizes > 1e-12)]
        if not len(sizes):
            return -9, 9
        return math.floor(math.log10(sizes.min())) - 1, math.ceil(math.log10(sizes.max())) + 1

    def move(self, picture: Picture) -> None:
        at, stop, dtype = MAGNITUDES.index(self["magnitude"]), self.positions["magnitude"], self["dtype"]
        for panel in self._panels:
            panel.point.set_data([MAGNITUDES[at]], [_drawn(self.now["stable"], panel.quantity)[at]])
        for (name, quantity), cell in self._cells.items():
            cell.set_text(_number(getattr(self.now[name], quantity)[at], quantity.endswith("error")))
        picture.moving[:] = self._cells.values()
        for panel in self._panels:
            picture.move(*panel.drawings[dtype], panel.lines[stop], panel.point)

    def regions(self, quantity: str, dtype: torch.dtype) -> dict[str, np.ndarray]:
        """Where the naive version's ``"value"`` or ``"gradient"`` overflows (inf, NaN) or underflows (a wrong 0)."""
        naive, stable = (getattr(self.readings[dtype][name], quantity) for name in ("naive", "stable"))
        return {"overflow": ~np.isfinite(naive), "underflow": (naive == 0) & (stable != 0)}

    def describe(self) -> str:
        at = MAGNITUDES.index(self["magnitude"])

        def said(name: str) -> str:
            now = self.now[name]
            if at in now.fault:
                return f"{name} raised {now.fault[at]}"
            value, gradient = (_number(each[at]) for each in (now.value, now.gradient))
            error = _number(now.value_error[at], error=True)
            return f"{name} gives {value} with gradient {gradient} (relative error of the value: {error})"

        return f"{self.pair.name} at m = {self['magnitude']:.2g} in {short(self['dtype'])}: {said('naive')}; {said('stable')}."


def _run(fn: Callable[[Tensor], Tensor], inputs: Tensor) -> list[tuple[float, float, str]]:
    """Value, gradient and fault at each input; a learner's function may raise at some."""
    results = []
    for each in inputs:
        x = each.clone().requires_grad_()
        try:
            value = fn(x)
            (gradient,) = torch.autograd.grad(value, x)
            results.append((value.item(), gradient.item(), ""))
        except Exception as error:
            results.append((math.nan, math.nan, f"{type(error).__name__}: {error}".split("\n")[0][:90]))
    return results


def _compare(results: list, exact: list) -> Readings:
    value, gradient = (np.array([each[part] for each in results]) for part in (0, 1))
    true_value, true_gradient = (np.array([each[part] for each in exact]) for part in (0, 1))
    with np.errstate(all="ignore"):
        errors = [
            np.where(
                np.isfinite(found), np.abs(found - true) / np.where(true == 0, 1, np.abs(true)), math.nan
            )
            for found, true in ((value, true_value), (gradient, true_gradient))
        ]
    return Readings(value, gradient, *errors, {at: each[2] for at, each in enumerate(results) if each[2]})


def _plot(picture: Picture, place: tuple, title: str, reach: tuple[float, float]) -> Axes:
    plot = axes(picture.figure, place, xscale="log", yscale="log", ylim=reach)
    plot.set_xlim(MAGNITUDES[0], MAGNITUDES[-1])
    plot.set_title(title, fontsize=13, pad=5)
    plot.xaxis.set_minor_locator(NullLocator())
    plot.yaxis.set_minor_locator(NullLocator())
    plot.set_xticks([1e-8, 1e-4, 1, 1e4], ["1e−8", "1e−4", "1", "1e4"])
    return plot


def _drawn(readings: Readings, quantity: str) -> np.ndarray:
    """The readings as they are drawn: sizes, and errors within the plot."""
    sizes = np.abs(getattr(readings, quantity))
    return np.clip(sizes, EXACT, CEILING / 2) if quantity.endswith("error") else sizes


def _table(picture: Picture) -> dict[tuple[str, str], Text]:
    """The numbers at the chosen magnitude; returns the cells that change."""
    panel = picture.figure.add_axes((0, 0, 1, 0.2), xlim=(0, 720), ylim=(90, 0))
    panel.axis("off")
    columns = {"value": 290, "gradient": 420, "value_error": 555, "gradient_error": 700}
    heads = ("value", "gradient", "error of value", "error of gradient")
    for x, head in zip(columns.values(), heads, strict=True):
        panel.text(x, 30, head, ha="right", color=MUTED.light, fontsize=12)
    panel.axhline(37, 0.03, 0.98, color=RULE.light, linewidth=1)
    cells = {}
    for y, name in ((57, "naive"), (79, "stable")):
        is_naive = name == "naive"
        ink = NAIVE if is_naive else FORWARD.line
        panel.plot([24, 60], [y - 4, y - 4], **ink)
        if not is_naive:
            panel.plot(42, y - 4, FORWARD.marker, color=FORWARD.light)
        panel.text(72, y, name, weight="bold")
        for quantity, x in columns.items():
            cells[name, quantity] = picture.move(panel.text(x, y, "", ha="right"))
    for x, kind in ((24, "overflow"), (114, "underflow")):
        panel.add_patch(Rectangle((x, 19), 16, 12, **SHADES[kind]))
        panel.text(x + 21, 30, kind, color=MUTED.light, fontsize=12)
    return cells


def _spans(where: np.ndarray) -> list[list[tuple[float, float]]]:
    """Runs of true as full-height rectangles, half a step wider at both ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(int)))
    half = 10 ** (1 / 8)
    runs = [
        (MAGNITUDES[start] / half, MAGNITUDES[end - 1] * half)
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]
    return [[(low, 0), (low, 1), (high, 1), (high, 0)] for low, high in runs]


def _power(tick: float) -> str:
    return f"1e{math.log10(tick):.0f}".replace("-", "−") if tick != 1 else "1"


def _number(value: float, error: bool = False) -> str:
    if not math.isfinite(value):
        return "none" if error else str(value)
    if value == 0:
        return "exact" if error else "0"
    return f"{value:.0e}" if error else f"{value:.6g}"
