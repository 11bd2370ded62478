"""Finite differences that know how far they can be trusted.

A central difference has a truncation error that falls with the step and a round-off error that rises. The
ladder below takes several steps, so that an analytic value is only called wrong when *no* step supports it,
and one-sided slopes tell kinks, jumps and infinite derivatives from mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

# The share of a value that two right computations may differ by, per precision.
TOLERANCE = {torch.float64: 1e-5, torch.float32: 5e-3, torch.bfloat16: 0.1, torch.float16: 3e-2}


@dataclass(frozen=True)
class Rung:
    """Slopes at one step: central, right and left, and the round-off to expect in them."""

    step: float
    central: float | None
    right: float | None
    left: float | None
    noise: float


@dataclass(frozen=True)
class Slope:
    """What finite differences say about one derivative."""

    rungs: tuple[Rung, ...]
    tolerance: float

    @property
    def best(self) -> float | None:
        """The value at which neighbouring steps agree best."""
        central = [rung for rung in self.rungs if rung.central is not None]
        if not central:
            one_sided = [rung.right if rung.right is not None else rung.left for rung in self.rungs]
            one_sided = [value for value in one_sided if value is not None]
            return one_sided[-1] if one_sided else None
        if len(central) == 1:
            return central[0].central
        agreement = {
            finer.central: abs(coarser.central - finer.central) + finer.noise
            for coarser, finer in pairwise(central)
        }
        return min(agreement, key=agreement.__getitem__)

    @property
    def step(self) -> float:
        """The step of ``best``."""
        best = self.best
        return next((rung.step for rung in self.rungs if rung.central == best), self.rungs[-1].step)

    @property
    def reliable(self) -> bool:
        """Whether two neighbouring steps agree, so that ``best`` is worth comparing with."""
        central = [rung for rung in self.rungs if rung.central is not None]
        return any(
            abs(a.central - b.central)
            <= 100 * self.tolerance * max(abs(a.central), abs(b.central)) + a.noise + b.noise
            for a, b in pairwise(central)
        )

    @property
    def kink(self) -> bool:
        """Whether the slopes on both sides differ, however small the step."""
        rungs = [rung for rung in self.rungs if rung.right is not None and rung.left is not None][-3:]
        if len(rungs) < 2:
            return False
        gaps = [abs(rung.right - rung.left) for rung in rungs]
        sizes = [max(abs(rung.right), abs(rung.left)) for rung in rungs]
        clear = all(
            gap > 1e-2 * size + 10 * rung.noise for gap, size, rung in zip(gaps, sizes, rungs, strict=True)
        )
        return clear and all(later > 0.5 * earlier for earlier, later in pairwise(gaps))

    @property
    def infinite(self) -> bool:
        """Whether the slope on some side grows without bound: the true derivative is infinite, or jumps."""
        for side in ("right", "left"):
            sizes = [abs(getattr(rung, side)) for rung in self.rungs if getattr(rung, side) is not None][-3:]
            if len(sizes) == 3 and sizes[0] > 0 and sizes[1] > 1.8 * sizes[0] and sizes[2] > 1.8 * sizes[1]:
                return True
        return False

    def supports(self, analytic: float, scale: float = 0.0) -> bool:
        """Tell whether any step, on either side of a kink, supports an analytic value.

        Args:
            analytic: the derivative that a backward returned.
            scale: size of the neighbouring derivatives; a thousandth of the tolerance of it is let pass.
        """
        if not math.isfinite(analytic):
            return math.isinf(analytic) and self.infinite
        if self.kink or self.infinite:
            sides = [rung.right for rung in self.rungs] + [rung.left for rung in self.rungs]
            sides = [side for side in sides if side is not None]
            slack = 1e-3 * max(abs(side) for side in sides)
            return self.infinite or min(sides) - slack <= analytic <= max(sides) + slack
        one_sided = all(rung.central is None for rung in self.rungs)
        for rung in self.rungs:
            for value in (rung.right, rung.left) if one_sided else (rung.central,):
                if value is None:
                    continue
                share = 100 * self.tolerance if one_sided else self.tolerance
                slack = share * max(abs(value), abs(analytic)) + 1e-3 * self.tolerance * scale + rung.noise
                if abs(analytic - value) <= slack:
                    return True
        return not any(rung.central is not None or rung.right is not None for rung in self.rungs)


def measure(f: Callable[[float], float | None], at: float, precision: torch.dtype, magnitude: float) -> Slope:
    """Measure the slope of ``f`` at 0.

    Args:
        f: value at an offset; ``None`` where there is none.
        at: size of the number that is being moved; steps follow it.
        precision: dtype that ``f`` was computed in.
        magnitude: size of the terms that ``f`` sums, for the round-off.
    """
    tolerance = TOLERANCE.get(precision, 1e-5)
    unit = torch.finfo(precision).eps if precision in TOLERANCE else 2.2e-16
    middle = f(0.0)
    ends = [(step, f(step), f(-step)) for step in _steps(abs(at), unit)]
    wobble = 30 * unit * max(magnitude, abs(at) * 1e-3, 1e-300) + 3 * _jitter(ends, middle)
    rungs = []
    for step, up, down in ends:
        noise = wobble / step
        rungs.append(
            Rung(
                step,
                None if up is None or down is None else (up - down) / (2 * step),
                None if up is None or middle is None else (up - middle) / step,
                None if down is None or middle is None else (middle - down) / step,
                noise,
            )
        )
    return Slope(tuple(rungs), tolerance)


def _jitter(ends: list[tuple[float, float | None, float | None]], middle: float | None) -> float:
    """Return how much the values themselves wobble, as those of an iterative solver do.

    Second differences fall with the step, for smooth functions and for kinks; what does not fall is wobble.
    """
    if middle is None or len(ends) < 2:
        return 0.0
    bends = [abs(up - 2 * middle + down) for _, up, down in ends[-2:] if up is not None and down is not None]
    return bends[1] if len(bends) == 2 and bends[1] > 0.3 * bends[0] else 0.0


def _steps(at: float, unit: float) -> list[float]:
    """Return steps from coarse to fine around the best one, which is near the cube root of the precision."""
    size = max(at, 1.0)
    if unit > 1e-4:
        return [size * step for step in (0.5, 0.2, 0.1)]
    if unit > 1e-10:
        return [size * step for step in (3e-2, 1e-2, 3e-3, 1e-3)]
    steps = [size * step for step in (1e-3, 1e-4, 1e-5, 1e-6)]
    if 0 < at < 1e-2:
        steps += [at * step for step in (1e-1, 1e-2, 1e-3) if at * step < steps[-1]]
    return steps


def real_view(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor as one row of reals; a complex number gives two."""
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).reshape(-1)


def paired(upstream: Tensor, output: Tensor) -> Tensor:
    """Return the real inner products, term by term, that an upstream gradient stands for."""
    return real_view(upstream.detach()).double() * real_view(output.detach()).double()


def position(number: int, tensor: Tensor) -> str:
    """Return the index, as one would type it, of the ``number``-th real coordinate."""
    part = ""
    if tensor.is_complex():
        number, imaginary = divmod(number, 2)
        part = ".imag" if imaginary else ".real"
    index = []
    for size in reversed(tensor.shape):
        number, remainder = divmod(number, size)
        index.append(remainder)
    return f"[{', '.join(map(str, reversed(index)))}]{part}" if index else part or "[]"
