"""Huber's delta on a slider: where a squared loss becomes an absolute one, and what the gradient does there."""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from torch import Tensor

from ..functions import huber
from .palette import BACKWARD, FORWARD, MUTED, TEXT, Ink
from .stage import Control, FrameExplorer, Picture, axes

REACH = 4.0
DELTAS = [round(0.1 * step, 1) for step in range(1, 36)]
RESIDUALS = torch.linspace(-REACH, REACH, 161, dtype=torch.float64)


class DeltaExplorer(FrameExplorer):
    """Huber loss and its gradient beside the squared and the absolute loss, with the border |r| = delta marked.

    Every number is computed by the Function itself: the loss by ``huber``, the gradient by its backward.

    Args:
        delta: where the slider starts, 0.1 to 3.5.
        residual: the residual whose loss and gradient are written out, -4 to 4.

    Raises:
        ValueError: ``delta`` or ``residual`` is outside its range.
    """

    title = "Huber: quadratic near zero, linear far away"
    size = (720, 390)

    def __init__(self, delta: float = 1.0, residual: float = 2.5) -> None:
        if not DELTAS[0] <= delta <= DELTAS[-1]:
            raise ValueError(f"delta is {delta}; allowed: {DELTAS[0]} to {DELTAS[-1]}.")
        if not -REACH <= residual <= REACH:
            raise ValueError(f"residual is {residual}; allowed: {-REACH} to {REACH}.")
        super().__init__(Control("delta", "delta δ", DELTAS, [f"{each:.1f}" for each in DELTAS]))
        self.residual = float(residual)
        self.choose(delta=delta)

    def curves(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and gradient at each residual, for the present delta."""
        residual = residual.clone().requires_grad_()
        loss = huber(residual, torch.zeros_like(residual), self["delta"])
        (gradient,) = torch.autograd.grad(loss.sum(), residual)
        return loss.detach(), gradient

    @property
    def numbers(self) -> tuple[float, float]:
        """Loss and gradient at ``residual``."""
        loss, gradient = self.curves(torch.tensor([self.residual], dtype=torch.float64))
        return loss.item(), gradient.item()

    def stage(self, picture: Picture) -> None:
        common = {"xlim": (-REACH, REACH), "xlabel": "residual  r = input − target"}
        left = axes(picture.figure, (0.055, 0.23, 0.42, 0.66), "Loss", ylim=(-0.35, 6), **common)
        right = axes(picture.figure, (0.565, 0.23, 0.42, 0.66), "Gradient", ylim=(-4.3, 4.3), **common)
        self._borders = [self._border(picture, plot) for plot in (left, right)]
        squared = {
            "color": MUTED.light,
            "linestyle": (0, (4, 2.5)),
            "linewidth": 1.6,
            "label": "squared, ½r²",
        }
        absolute = {
            "color": MUTED.light,
            "linestyle": (0, (1.2, 1.8)),
            "linewidth": 1.8,
            "label": "absolute, |r|",
        }
        left.plot(RESIDUALS, RESIDUALS**2 / 2, **squared)
        left.plot(RESIDUALS, RESIDUALS.abs(), **absolute)
        right.plot(RESIDUALS, RESIDUALS, **squared)
        right.step(RESIDUALS, RESIDUALS.sign(), **absolute)
        picture.figure.legend(
            *left.get_legend_handles_labels(), loc="lower center", bbox_to_anchor=(0.525, -0.012), ncols=2
        )
        self._curves = [self._curve(picture, plot, ink) for plot, ink in ((left, FORWARD), (right, BACKWARD))]

    def _border(self, picture: Picture, plot: Axes) -> tuple:
        low, high = plot.get_ylim()
        region = picture.move(plot.axvspan(0, 1, color=MUTED.light, alpha=0.1, linewidth=0))
        lines = [
            picture.move(plot.axvline(0, color=TEXT.light, linewidth=1, linestyle=(0, (3, 3))))
            for _ in (-1, 1)
        ]
        names = [
            picture.move(plot.text(0, low + 0.02 * (high - low), name, ha="center", va="bottom", zorder=4))
            for name in ("−δ", "δ")
        ]
        return region, lines, names

    def _curve(self, picture: Picture, plot: Axes, ink: Ink) -> tuple:
        line = picture.move(*plot.plot([], [], **ink.line, linewidth=3))
        point = picture.move(*plot.plot([], [], **ink.point, zorder=5))
        number = picture.move(
            plot.text(1, 1.045, "", transform=plot.transAxes, ha="right", color=ink.light, weight="bold")
        )
        return line, point, number

    def move(self, picture: Picture) -> None:
        delta = self["delta"]
        for region, lines, names in self._borders:
            region.set_x(-delta)
            region.set_width(2 * delta)
            for side, line, name in zip((-1, 1), lines, names, strict=True):
                line.set_xdata([side * delta, side * delta])
                name.set_x(side * (delta + 0.3))
        for (line, point, number), curve, value in zip(
            self._curves, self.curves(RESIDUALS), self.numbers, strict=True
        ):
            line.set_data(RESIDUALS.numpy(), curve.numpy())
            point.set_data([self.residual], [value])
            number.set_text(f"Huber at r = {self.residual:g}:  {value:.3f}")

    def describe(self) -> str:
        loss, gradient = self.numbers
        inside = abs(self.residual) <= self["delta"]
        how = (
            "within the border, so the loss is quadratic and the gradient is r itself"
            if inside
            else "beyond the border, so the loss is linear and the gradient is held at ±delta"
        )
        return (
            f"Huber loss with delta = {self['delta']:.1f}: at residual r = {self.residual:g} the loss is {loss:.3f} and "
            f"the gradient {gradient:.3f}; r is {how}."
        )
