"""A Jacobian as a grid, and the VJP that sweeps it row by row, or answers at once without it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from ..numerics import jacobian_by_rows
from .palette import BACKWARD, FORWARD, MUTED, RULE, TEXT
from .stage import Control, FrameExplorer, Picture

MOST = 8  # rows or columns
CELL, HEIGHT = 66, 38
LEFT, TOP = 120, 78


class JacobianExplorer(FrameExplorer):
    """The Jacobian of ``fn`` at ``x``: each backward pass with a unit upstream fetches one row; one with v gives vᵀJ.

    Args:
        fn: a function of a tensor; its Jacobian must have at most 8 rows and 8 columns.
        x: the point, of any shape.
        upstream: v, of the shape of ``fn(x)``; by default 1, -1, 1, … divided by 2, so that no row goes unseen.

    Attributes:
        jacobian: shape (numbers of ``fn(x)``, numbers of ``x``).

    Raises:
        ValueError: the Jacobian is empty or too large, or ``upstream`` does not fit.
    """

    title = "The VJP sweeps the Jacobian"
    interval = 1200

    def __init__(self, fn: Callable[[Tensor], Tensor], x: Tensor, upstream: Tensor | None = None) -> None:
        self.fn, self.x = fn, x.detach()
        self.jacobian = jacobian_by_rows(fn, self.x).detach()
        rows, columns = self.jacobian.shape
        if not (1 <= rows <= MOST and 1 <= columns <= MOST):
            raise ValueError(
                f"the Jacobian has {rows} rows and {columns} columns; allowed: 1 to {MOST} of each."
            )
        if upstream is None:
            upstream = self.jacobian.new_tensor([0.5 * (-1) ** row for row in range(rows)])
        if upstream.numel() != rows:
            raise ValueError(f"upstream has {upstream.numel()} numbers; fn(x) has {rows}.")
        self.upstream = upstream.detach().reshape(rows).to(self.jacobian.dtype)
        self.size = (max(560, LEFT + CELL * columns + 200), TOP + HEIGHT * rows + 116)
        labels = [f"e{_below(row)}, row {row} of {rows - 1}" for row in range(rows)] + ["v, all rows at once"]
        super().__init__(Control("pass", "upstream", list(range(rows + 1)), labels))

    @property
    def incoming(self) -> Tensor:
        """The upstream gradient of the chosen backward pass."""
        rows = len(self.jacobian)
        return (
            self.upstream
            if self["pass"] == rows
            else torch.eye(rows, dtype=self.upstream.dtype)[self["pass"]]
        )

    @property
    def vjp(self) -> Tensor:
        """What that backward pass gives: one number for each number of ``x``."""
        x = self.x.clone().requires_grad_()
        output = self.fn(x)
        (gradient,) = torch.autograd.grad(output, x, self.incoming.reshape(output.shape).to(output.dtype))
        return gradient.reshape(-1)

    def stage(self, picture: Picture) -> None:
        width, height = self.size
        panel = picture.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        panel.axis("off")
        rows, columns = self.jacobian.shape
        foot = TOP + HEIGHT * rows + 46
        head = {"fontsize": 14, "weight": "bold", "va": "center"}
        panel.text(LEFT, 24, "Jacobian J", **head)
        panel.text(4, 24, "upstream v", color=BACKWARD.light, **head)
        panel.text(LEFT - 14, foot + HEIGHT / 2, "vᵀJ", color=BACKWARD.light, ha="right", **head)
        for column in range(columns):
            panel.text(
                LEFT + CELL * (column + 0.5), TOP - 16, f"x{_below(column)}", color=MUTED.light, ha="center"
            )
        sizes = self.jacobian.abs()
        shares = (sizes / (sizes[sizes.isfinite()].max() if sizes.isfinite().any() else 1)).nan_to_num(0, 0)
        self._rows, self._incoming, self._outgoing = [], [], []
        for row in range(rows):
            top = TOP + HEIGHT * row
            panel.text(
                LEFT + CELL * columns + 12,
                top + HEIGHT / 2,
                f"y{_below(row)}",
                color=MUTED.light,
                va="center",
            )
            self._incoming.append(self._cell(picture, panel, 20, top, BACKWARD.light))
            cells = []
            for column in range(columns):
                value = self.jacobian[row, column].item()
                place = (LEFT + CELL * column, top)
                panel.add_patch(
                    Rectangle(place, CELL - 4, HEIGHT - 4, facecolor="none", edgecolor=RULE.light)
                )
                tint = Rectangle(
                    place,
                    CELL - 4,
                    HEIGHT - 4,
                    facecolor=(FORWARD.light, 0.05 + 0.3 * shares[row, column].item()),
                    edgecolor=FORWARD.light,
                    linewidth=0.8,
                )
                number = panel.text(
                    place[0] + CELL / 2 - 2, top + HEIGHT / 2 - 2, _number(value), ha="center", va="center"
                )
                cells += [panel.add_patch(tint), number]
            self._rows.append(cells)
            picture.move(*cells)
        for column in range(columns):
            self._outgoing.append(self._cell(picture, panel, LEFT + CELL * column, foot, BACKWARD.light))
        self._band = picture.move(
            panel.add_patch(
                Rectangle(
                    (LEFT - 5, TOP - 5),
                    CELL * columns + 6,
                    HEIGHT + 6,
                    facecolor="none",
                    edgecolor=TEXT.light,
                    linewidth=2.2,
                )
            )
        )
        self._note = picture.move(panel.text(4, height - 8, "", color=MUTED.light, fontsize=12))

    def _cell(self, picture: Picture, panel, left: float, top: float, colour: str):
        panel.add_patch(
            Rectangle(
                (left, top), CELL - 4, HEIGHT - 4, facecolor="none", edgecolor=colour, linestyle=(0, (4, 2))
            )
        )
        return picture.move(
            panel.text(left + CELL / 2 - 2, top + HEIGHT / 2 - 2, "", ha="center", va="center", color=colour)
        )

    def move(self, picture: Picture) -> None:
        rows, now = len(self.jacobian), self["pass"]
        for cell, value in zip(self._incoming, self.incoming.tolist(), strict=True):
            cell.set_text(_number(value))
        for cell, value in zip(self._outgoing, self.vjp.tolist(), strict=True):
            cell.set_text(_number(value))
        everything = now == rows
        self._band.set_y(TOP - 5 if everything else TOP - 5 + HEIGHT * now)
        self._band.set_height(HEIGHT * (rows if everything else 1) + 6)
        self._note.set_text(
            f"1 backward pass: vᵀJ, and no need to know J ({rows} passes would fetch it)"
            if everything
            else f"{now + 1} of {rows} backward passes: {now + 1} of {rows} rows known"
        )
        known = self._rows if everything else self._rows[: now + 1]
        picture.moving[:] = [*self._incoming, *self._outgoing, self._band, self._note]
        for row in known:
            picture.moving += row

    def describe(self) -> str:
        rows, now = len(self.jacobian), self["pass"]
        result = ", ".join(map(_number, self.vjp.tolist()))
        if now == rows:
            incoming = ", ".join(map(_number, self.incoming.tolist()))
            return f"Upstream v = ({incoming}): one backward pass gives vᵀJ = ({result}), without J ever being built."
        return (
            f"Upstream e{_below(now)}, one at output {now} and zero elsewhere: a backward pass gives row {now} of the "
            f"Jacobian, ({result}). The whole Jacobian takes {rows} such passes."
        )


def _below(number: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number))


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−").replace("nan", "NaN")
