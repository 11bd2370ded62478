"""Derivatives by differences: the taste test that every gradient must pass.

All four schemes estimate the derivative of ``fn`` at ``x`` along a direction, the Jacobian-vector product ``J v``. With
u the unit round-off of the dtype (2^-53 in float64, 2^-24 in float32) and a function and point of size about 1:

==================  ====================  ===============  ==================  ===========
scheme              error of truncation   of round-off     best step           best error
==================  ====================  ===============  ==================  ===========
forward difference  ε f''/2               2u/ε             u^(1/2)             u^(1/2)
central difference  ε² f'''/6             u/ε              u^(1/3)             u^(2/3)
Richardson          ε⁴ f⁽⁵⁾/30            2u/ε             u^(1/5)             u^(4/5)
complex step        ε² f'''/6             none             as small as you     u
                                                           like
==================  ====================  ===============  ==================  ===========

Sources: W. H. Press et al., *Numerical Recipes*, section 5.7; W. Squire and G. Trapp (1998), "Using Complex Variables to
Estimate Derivatives of Real Functions"; L. F. Richardson (1911).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

TensorFunction = Callable[[Tensor], Tensor]

COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
BEST_POWER = {"forward": 1 / 2, "central": 1 / 3, "richardson": 1 / 5}
"""The best step is u to this power, times the size of x."""


def _real(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise TypeError(
            f"{name} must be a real floating tensor, not {getattr(value, 'dtype', type(value).__name__)}."
        )
    return value


def _direction(x: Tensor, direction: Tensor | int | None) -> Tensor:
    """A direction of x's shape: the one given, a coordinate's unit vector, or ones."""
    _real("x", x)
    if direction is None:
        return torch.ones_like(x)
    if isinstance(direction, int) and not isinstance(direction, bool):
        if not 0 <= direction < x.numel():
            raise ValueError(
                f"direction is coordinate {direction}, but x has {x.numel()} numbers, counted from 0."
            )
        unit = torch.zeros(x.numel(), dtype=x.dtype, device=x.device)
        unit[direction] = 1
        return unit.reshape(x.shape)
    if not isinstance(direction, Tensor):
        raise TypeError(
            f"direction must be a tensor, a coordinate's number or None, not {type(direction).__name__}."
        )
    if direction.shape != x.shape:
        raise ValueError(
            f"direction has shape {tuple(direction.shape)}, x has {tuple(x.shape)}; they must agree."
        )
    return direction.to(x)


def _step(method: str, x: Tensor, eps: float | None) -> float:
    if eps is None:
        return best_step(method, x.dtype, float(x.detach().abs().max()) if x.numel() else 1.0)
    if not (isinstance(eps, int | float) and eps > 0 and math.isfinite(eps)):
        raise ValueError(f"eps is {eps}; it must be a finite number greater than 0.")
    if torch.tensor(eps, dtype=x.dtype) == 0:
        raise ValueError(f"eps is {eps}, which rounds to 0 in {x.dtype}.")
    return float(eps)


@torch.no_grad()
def forward_difference(
    fn: TensorFunction, x: Tensor, direction: Tensor | int | None = None, eps: float | None = None
) -> Tensor:
    """``(f(x + εv) - f(x)) / ε``: error O(ε), one extra evaluation.

    Args:
        fn: maps a tensor of x's shape to a tensor of any shape.
        x: the point, a real floating tensor.
        direction: a tensor of x's shape, the number of a coordinate (counted in the flattened x), or ``None`` for ones.
        eps: the step; ``best_step`` by default.

    Returns:
        The derivative along the direction, in the shape of ``fn(x)``.

    Raises:
        TypeError, ValueError: an argument is not as described.
    """
    v, eps = _direction(x, direction), _step("forward", x, eps)
    return (fn(x + eps * v) - fn(x)) / eps


@torch.no_grad()
def central_difference(
    fn: TensorFunction, x: Tensor, direction: Tensor | int | None = None, eps: float | None = None
) -> Tensor:
    """``(f(x + εv) - f(x - εv)) / 2ε``: error O(ε²), two evaluations. Arguments as in ``forward_difference``.

    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> round(central_difference(lambda z: (z**2).sum(), x, direction=1, eps=1e-3).item(), 9)
    4.0
    """
    v, eps = _direction(x, direction), _step("central", x, eps)
    return (fn(x + eps * v) - fn(x - eps * v)) / (2 * eps)


@torch.no_grad()
def richardson(
    fn: TensorFunction, x: Tensor, direction: Tensor | int | None = None, eps: float | None = None
) -> Tensor:
    """Two central differences combined so that their ε² errors cancel: error O(ε⁴), four evaluations.

    Arguments as in ``forward_difference``.
    """
    v, eps = _direction(x, direction), _step("richardson", x, eps)
    wide, narrow = (central_difference(fn, x, v, step) for step in (2 * eps, eps))
    return (4 * narrow - wide) / 3


@torch.no_grad()
def complex_step(
    fn: TensorFunction, x: Tensor, direction: Tensor | int | None = None, eps: float = 1e-30
) -> Tensor:
    """``Im f(x + iεv) / ε``: nothing is subtracted, so nothing is lost, and ε can be tiny.

    ``fn`` must be analytic and accept complex tensors: no ``abs``, ``max`` or comparison inside. Arguments as in
    ``forward_difference``; float32 and float64 only.

    Raises:
        TypeError: ``x`` is not float32 or float64, or ``fn`` does not return complex numbers for complex input.
    """
    v, eps = _direction(x, direction), _step("complex", x, eps)
    if x.dtype not in COMPLEX:
        raise TypeError(f"x has dtype {x.dtype}; the complex step needs float32 or float64.")
    value = fn(torch.complex(x, eps * v))
    if not value.is_complex():
        raise TypeError(
            "fn gave real numbers for a complex input: it is not analytic, so the complex step does not apply."
        )
    return value.imag / eps


def best_step(method: str, dtype: torch.dtype, scale: float = 1.0) -> float:
    """The step at which truncation and round-off balance, for a point of size ``scale``.

    Args:
        method: "forward", "central" or "richardson".
        dtype: a real floating dtype; its unit round-off decides.
        scale: typical size of x. Sizes below 1 count as 1, so that the step at 0 is not 0.

    Raises:
        ValueError: ``method`` has no best step (the complex step can be as small as you like) or is unknown.

    >>> f"{best_step('central', torch.float64):.1e}"
    '4.8e-06'
    """
    if method not in BEST_POWER:
        raise ValueError(f"method is {method!r}; allowed are {', '.join(map(repr, BEST_POWER))}.")
    round_off = torch.finfo(dtype).eps / 2
    return round_off ** BEST_POWER[method] * max(abs(scale), 1.0)


@dataclass
class ErrorCurve:
    """Errors of a scheme against its step.

    Attributes:
        method: name of the scheme.
        steps: the steps tried.
        errors: absolute error at each step; NaN in a gap.
        truncation, round_off: what theory says of each step; empty where the derivatives it needs are not known.
        gaps: what went wrong at the steps without an error, by step.
    """

    method: str
    steps: list[float]
    errors: list[float] = field(default_factory=list)
    truncation: list[float] = field(default_factory=list)
    round_off: list[float] = field(default_factory=list)
    gaps: dict[float, str] = field(default_factory=dict)

    @property
    def best(self) -> tuple[float, float]:
        """The step with the smallest error, and that error; NaN twice when every step is a gap."""
        found = [
            (error, step)
            for error, step in zip(self.errors, self.steps, strict=True)
            if not math.isnan(error)
        ]
        error, step = min(found, default=(math.nan, math.nan))
        return step, error


METHODS: dict[str, Callable[..., Tensor]] = {
    "forward": forward_difference,
    "central": central_difference,
    "richardson": richardson,
    "complex": complex_step,
}


@torch.enable_grad()
def derivatives(fn: TensorFunction, x: Tensor, order: int) -> list[float]:
    """``[f', f'', …]`` at a 0-d ``x`` by autograd in float64, as far as ``fn`` can be differentiated.

    Raises:
        ValueError: ``fn`` has no first derivative there by autograd.
    """
    point = x.detach().double().requires_grad_()
    value, found = fn(point), []
    for _ in range(order):
        if not value.requires_grad:
            break
        (value,) = torch.autograd.grad(value, point, create_graph=True, allow_unused=True)
        if value is None:
            break
        found.append(float(value.detach()))
    if not found:
        raise ValueError("fn has no derivative by autograd at x; pass derivative=.")
    return found + [0.0] * (order - len(found))


def error_curve(
    fn: TensorFunction,
    x: Tensor | float,
    dtype: torch.dtype = torch.float64,
    steps: Sequence[float] | None = None,
    derivative: float | None = None,
    methods: Sequence[str] = ("forward", "central", "complex"),
) -> dict[str, ErrorCurve]:
    """How the error of each scheme depends on the step, for a function of one number.

    Args:
        fn: maps a 0-d tensor to a 0-d tensor.
        x: the point; it is rounded to ``dtype`` before anything is measured.
        dtype: in which ``fn`` is evaluated.
        steps: default: four to a decade from 1e-16 to 1.
        derivative: the true one; by default autograd's in float64, which also gives the lines of theory.
        methods: names from ``METHODS``.

    Returns:
        One curve for each method. A step at which ``fn`` raises or gives NaN is a gap with its reason, not an error.

    Raises:
        ValueError: ``x`` is not a single number, a method is unknown, or ``fn`` has no derivative by autograd at ``x``
            and none was given.
    """
    point = torch.as_tensor(x, dtype=dtype).detach()
    if point.dim() != 0:
        raise ValueError(f"x has shape {tuple(point.shape)}; it must be one number, a 0-d tensor.")
    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        raise ValueError(f"methods holds {unknown[0]!r}; allowed are {', '.join(map(repr, METHODS))}.")
    steps = list(steps) if steps is not None else [10.0 ** (-16 + k / 4) for k in range(65)]
    higher = derivatives(fn, point, 5) if derivative is None else [derivative]
    value = abs(float(fn(point.double())))
    u = torch.finfo(dtype).eps / 2
    theory = {
        "forward": (lambda e: e * abs(higher[1]) / 2, lambda e: 2 * u * value / e),
        "central": (lambda e: e**2 * abs(higher[2]) / 6, lambda e: u * value / e),
        "richardson": (lambda e: e**4 * abs(higher[4]) / 30, lambda e: 2 * u * value / e),
        "complex": (lambda e: e**2 * abs(higher[2]) / 6, lambda e: 0.0),
    }
    curves = {}
    for method in methods:
        curve = curves[method] = ErrorCurve(method, steps)
        for eps in steps:
            try:
                estimate = float(METHODS[method](fn, point, eps=eps))
                reason = "" if math.isfinite(estimate) else f"the estimate is {estimate}"
            except Exception as error:
                estimate, reason = math.nan, f"{type(error).__name__}: {error}".split("\n")[0]
            if reason:
                curve.gaps[eps] = reason
            curve.errors.append(math.nan if reason else abs(estimate - higher[0]))
        if len(higher) > 1:
            truncation, round_off = theory[method]
            curve.truncation, curve.round_off = [truncation(e) for e in steps], [round_off(e) for e in steps]
    return curves


@torch.enable_grad()
def jacobian_by_rows(fn: TensorFunction, x: Tensor) -> Tensor:
    """The Jacobian from one VJP per output number: what reverse mode gives.

    Returns:
        Shape (numbers of ``fn(x)``, numbers of ``x``). Zeros where ``fn`` does not depend on ``x``.

    Raises:
        TypeError: ``x`` is not a real floating tensor.
    """
    point = _real("x", x).detach().clone().requires_grad_()
    y = fn(point).reshape(-1)
    rows = []
    for i in range(y.numel()):
        row = None
        if y.requires_grad:
            (row,) = torch.autograd.grad(y[i], point, retain_graph=True, allow_unused=True)
        rows.append(torch.zeros_like(point) if row is None else row)
    return torch.stack([row.reshape(-1) for row in rows]) if rows else x.new_zeros(0, x.numel())


def jacobian_by_columns(fn: TensorFunction, x: Tensor, eps: float | None = None) -> Tensor:
    """The Jacobian from one central difference per input number: the columns J eᵢ, with no derivative rule used.

    Returns:
        Shape (numbers of ``fn(x)``, numbers of ``x``).
    """
    columns = [central_difference(fn, x.detach(), i, eps).reshape(-1) for i in range(x.numel())]
    return torch.stack(columns, 1) if columns else x.new_zeros(fn(x.detach()).numel(), 0)
