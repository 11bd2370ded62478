"""How a case is written down: a function that returns ``(fn, inputs)``, with the findings it must get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """One Function of the corpus."""

    name: str
    make: Callable[[], tuple[Callable[..., object], tuple[object, ...]]]
    expected: tuple[str, ...]


def case(cases: list[Case]) -> Callable[..., Callable]:
    """Return a decorator that adds a case to ``cases`` with the findings it expects."""

    def named(*expected: str) -> Callable:
        def keep(make: Callable) -> Callable:
            cases.append(Case(make.__name__, make, expected))
            return make

        return keep

    return named


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Return normal float64 noise that requires grad."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()
