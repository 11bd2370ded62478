"""Guesses at the mistake behind a wrong gradient. Each is tested against the numbers; none is worded from the air."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from ..examination import Examination
from ..slopes import Slope, real_view

LARGEST_JACOBIAN = 4096


@dataclass(frozen=True)
class Mismatch:
    """A gradient and the slopes that disagree with it."""

    slot: int
    coordinates: list[int]
    analytic: dict[int, float]
    slopes: dict[int, Slope]
    gradient: Tensor
    upstream: dict[int, Tensor]
    values: list[Tensor]


@dataclass(frozen=True)
class Guess:
    """What the mistake probably is, how that was tested, and the cure."""

    phrase: str
    test: str
    cure: str = ""


def guess(exam: Examination, seen: Mismatch) -> Guess | None:
    """Return the first guess that the numbers confirm."""
    numeric = torch.tensor([seen.slopes[c].best for c in seen.coordinates], dtype=torch.float64)
    analytic = torch.tensor([seen.analytic[c] for c in seen.coordinates], dtype=torch.float64)
    if not bool(analytic.isfinite().all()) or not bool(numeric.isfinite().all()):
        return None
    if float(numeric.abs().max()) < 1e-9 * float(analytic.abs().max()):
        return Guess(
            "forward does not change with it, yet a gradient comes out",
            "every central difference is 0",
            "If this is a straight-through or surrogate gradient, declare it with a Surrogate.",
        )
    for attempt in ATTEMPTS:
        found = attempt(exam, seen, analytic, numeric)
        if found is not None:
            return found
    return None


def _close(a: Tensor, b: Tensor) -> bool:
    size = max(float(a.abs().max()), float(b.abs().max())) if a.numel() else 0.0
    return size > 0 and float((a - b).abs().max()) <= 2e-4 * size


def _sign(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    if _close(analytic, -numeric):
        return Guess(
            "its sign is the wrong way round",
            "backward = −1 × central difference everywhere",
            "Turn the sign.",
        )
    return None


def _conjugate(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    gradient = seen.gradient
    if not gradient.is_complex() or len(seen.upstream) != 1 or numeric.numel() != 2 * gradient.numel():
        return None
    (v,) = seen.upstream.values()
    right = torch.view_as_complex(numeric.reshape(-1, 2))
    if v.numel() != right.numel() or not v.is_complex():
        return None
    local = right / v.reshape(-1)
    if _close(real_view(gradient), real_view(v.reshape(-1) * local.conj())):
        return Guess(
            "the conjugate of the local derivative is missing",
            "backward ÷ grad_output = conjugate of (central difference ÷ grad_output) everywhere",
            "Multiply grad_output by the conjugate of the derivative: grad_output * derivative.conj().",
        )
    return None


def _factor(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    square = float(numeric @ numeric)
    if not square:
        return None
    factor = float(analytic @ numeric) / square
    if abs(factor) < 1e-12 or not _close(analytic, factor * numeric):
        return None
    if len(seen.coordinates) == 1 and Fraction(factor).limit_denominator(16) - Fraction(factor) > 1e-4:
        return None
    nice = Fraction(factor).limit_denominator(64)
    told = str(nice) if abs(float(nice) - factor) < 1e-4 * abs(factor) else f"{factor:.4g}"
    size = real_view(seen.gradient).numel()
    for number, v in seen.upstream.items():
        copies = v.numel() / size
        if copies > 1 and abs(factor * copies - 1) < 1e-3:
            return Guess(
                f"a constant factor {told}, one over the number of broadcast copies: a mean where a sum belongs",
                f"backward = {told} × central difference everywhere; output {number} holds {copies:.0f} copies",
                "Sum the gradient over the broadcast dimensions instead of averaging.",
            )
    return Guess(
        f"a constant factor of {told}",
        f"backward = {told} × central difference everywhere",
        f"Divide the gradient by {told}: a constant of the derivative was dropped or doubled.",
    )


def _another_input(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    for other in exam.subject.active:
        if (
            other == seen.slot
            or real_view(seen.values[other]).numel() != real_view(seen.values[seen.slot]).numel()
        ):
            continue
        slopes = [exam.slope(seen.values, seen.upstream, other, c).best for c in seen.coordinates]
        if any(value is None for value in slopes):
            continue
        if _close(analytic, torch.tensor(slopes, dtype=torch.float64)):
            return Guess(
                f"it is the gradient of {exam.name(other)}; the inputs are swapped",
                f"backward = central difference by {exam.name(other)} everywhere",
                "Return the gradients in the order of forward's arguments.",
            )
    return None


def _transposed(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    shape = seen.gradient.shape
    if len(shape) < 2 or seen.gradient.is_complex() or numeric.numel() != seen.gradient.numel():
        return None
    right = numeric.reshape(shape)
    turned = right.transpose(-1, -2).contiguous().reshape(-1)
    rows = right.reshape(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2).contiguous().reshape(-1)
    for candidate in (turned, rows):
        if _close(analytic, candidate) and not _close(candidate, numeric):
            return Guess(
                "it is transposed",
                "backward = the central differences with rows and columns exchanged",
                "Transpose it (for y = x @ w: grad_x = grad_output @ w.T, grad_w = x.T @ grad_output).",
            )
    return None


def _jacobian(exam: Examination, seen: Mismatch) -> Tensor | None:
    """Return outputs × inputs, by central differences, for one real output and few numbers."""
    value = seen.values[seen.slot]
    if len(seen.upstream) != 1 or value.is_complex() or len(seen.coordinates) != value.numel():
        return None
    (output,) = seen.upstream
    rows = seen.upstream[output].numel()
    if seen.upstream[output].is_complex() or rows * value.numel() > LARGEST_JACOBIAN:
        return None
    columns = []
    for coordinate in range(value.numel()):
        ends = []
        for sign in (1, -1):
            trial = list(seen.values)
            trial[seen.slot] = value.clone(memory_format=torch.contiguous_format)
            real_view(trial[seen.slot])[coordinate] += sign * seen.slopes[coordinate].step
            with torch.no_grad():
                ends.append(exam.subject.run(trial, active=[]).outputs[output].detach().reshape(-1).double())
        columns.append((ends[0] - ends[1]) / (2 * seen.slopes[coordinate].step))
    return torch.stack(columns, 1)


def _copies(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    jacobian = _jacobian(exam, seen)
    size = analytic.numel()
    if jacobian is None or jacobian.shape[0] <= size or jacobian.shape[0] % size:
        return None
    (v,) = seen.upstream.values()
    shares = (v.reshape(-1, 1).double() * jacobian).reshape(-1, size, size)
    for which, place in (("first", 0), ("last", -1)):
        if _close(analytic, shares[place].sum(0)):
            return Guess(
                f"the sum over the broadcast copies is missing: only the {which} of {len(shares)} is there",
                f"backward = the share of the {which} copy alone",
                "Sum over the broadcast dimensions: grad_output.sum_to_size(x.shape).",
            )
    return None


def _by_jacobian(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    if len(seen.upstream) > 1:
        return _one_output_left_out(exam, seen, analytic, numeric)
    jacobian = _jacobian(exam, seen)
    if jacobian is None:
        return None
    (v,) = (tensor.reshape(-1).double() for tensor in seen.upstream.values())
    square = jacobian.shape[0] == jacobian.shape[1]
    diagonal = jacobian.diagonal()
    if square and _close(analytic, diagonal * v):
        return Guess(
            "only the diagonal of the Jacobian is used",
            "backward = grad_output × diagonal of the numeric Jacobian",
            "Add the terms that couple different elements, e.g. softmax: y * (g - (g * y).sum(-1, keepdim=True)).",
        )
    if square and _close(analytic, jacobian @ v):
        return Guess(
            "it is J·v where vᵀ·J is due: the Jacobian is transposed",
            "backward = numeric Jacobian @ grad_output",
            "Use the transposed Jacobian: a VJP, not a JVP.",
        )
    for word, factor in (("summed", v.sum()), ("averaged", v.mean()), ("reduced to its first element", v[0])):
        if v.numel() > 1 and _close(analytic, jacobian.sum(0) * factor):
            return Guess(
                f"grad_output is {word} before it is used",
                f"backward = (column sums of the Jacobian) × (grad_output {word})",
                "Multiply each output's row by its own element of grad_output.",
            )
    return None


def _one_output_left_out(
    exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor
) -> Guess | None:
    for left_out in seen.upstream:
        rest = {n: v if n != left_out else torch.zeros_like(v) for n, v in seen.upstream.items()}
        slopes = [exam.slope(seen.values, rest, seen.slot, c).best for c in seen.coordinates]
        if all(value is not None for value in slopes) and _close(
            analytic, torch.tensor(slopes, dtype=torch.float64)
        ):
            return Guess(
                f"the share of output {left_out} is missing",
                f"backward = central difference without output {left_out}",
                "Add the gradients that come through every output.",
            )
    return None


def _quantities(exam: Examination, seen: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors of the gradient's size that a formula could have left out or put in."""
    size = real_view(seen.gradient).numel()
    if seen.gradient.is_complex():
        return
    with torch.no_grad():
        outputs = exam.subject.run(seen.values, active=[]).outputs
    pool = [(exam.name(number), value) for number, value in enumerate(seen.values)]
    pool += [("the output", output) for output in outputs]
    pool += [("grad_output", v) for v in seen.upstream.values()]
    chosen = torch.tensor(seen.coordinates)
    for name, tensor in pool:
        if tensor.dtype.is_floating_point and tensor.layout == torch.strided and tensor.numel() == size:
            yield name, tensor.detach().reshape(-1).double()[chosen]


def _known_factor(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    if len(seen.coordinates) < 2:
        return None
    for name, quantity in _quantities(exam, seen):
        if float(quantity.abs().max() - quantity.abs().min()) < 1e-9:
            continue
        for word, left, right in (
            ("missing", analytic * quantity, numeric),
            ("too many", analytic, numeric * quantity),
        ):
            square = float(right @ right)
            factor = float(left @ right) / square if square else 0.0
            if factor and _close(left, factor * right):
                times = "" if abs(factor - 1) < 1e-3 else f" (and a constant {1 / factor:.4g})"
                return Guess(
                    f"a factor {name}{times} is {word}",
                    f"backward {'× ' + name if word == 'missing' else '÷ ' + name} ∝ central difference everywhere",
                    "Apply the chain rule to every factor once.",
                )
    return None


def _extra_term(exam: Examination, seen: Mismatch, analytic: Tensor, numeric: Tensor) -> Guess | None:
    if len(seen.coordinates) < 2:
        return None
    rest = numeric - analytic
    known = list(_quantities(exam, seen))
    upstream = [tensor for name, tensor in known if name == "grad_output"]
    terms = [*known]
    terms += [
        (f"grad_output × {name}", v * tensor)
        for v in upstream
        for name, tensor in known
        if name != "grad_output"
    ]
    for name, term in terms:
        square = float(term @ term)
        factor = float(rest @ term) / square if square else 0.0
        if factor and _close(rest, factor * term):
            return Guess(
                f"the term {factor:.4g} × {name} is missing",
                f"central difference − backward = {factor:.4g} × {name} everywhere",
                "Add the term: differentiate every place where the input appears.",
            )
    return None


ATTEMPTS = (
    _sign,
    _another_input,
    _transposed,
    _conjugate,
    _copies,
    _factor,
    _by_jacobian,
    _known_factor,
    _extra_term,
)
