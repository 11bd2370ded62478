"""Gradients that are not numbers where the value is one: at the sample, at zero, and over magnitudes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ..examination import Examination
from ..slopes import position, real_view

MAGNITUDES = (1e-8, 1e-4, 1e2, 1e4)
LOOKED_AT = 8

# A matrix of zeros is outside the domain of these: their gradients divide by differences that are all zero.
SINGULAR = ("Eig", "Svd", "Qr", "Lu", "Cholesky", "Inv", "Solve", "Pinv", "LU", "QR", "SVD")


def at_the_sample(exam: Examination) -> None:
    """NaN, or infinite without an infinite slope, at the inputs given."""
    call = exam.subject.run()
    if all(bool(call.outputs[number].detach().isfinite().all()) for number in call.differentiable):
        _look(exam, exam.subject.values, exam.gradients, "at the inputs given")


def elsewhere(exam: Examination) -> None:
    """The same at zeros, at equal inputs, and with the inputs scaled to several magnitudes."""
    singular = _decomposes(exam)
    for word, values, change in _points(exam):
        if singular and not word.startswith("at magnitude"):
            continue
        if exam.has("nan-gradient"):
            return
        try:
            call = exam.subject.run(values)
            outputs = [call.outputs[number] for number in call.differentiable]
            if not outputs or not all(bool(output.detach().isfinite().all()) for output in outputs):
                continue
            gradients = exam.subject.gradients(call, exam.subject.upstream(call))
        except (Exception, SystemExit):
            continue
        _look(exam, values, gradients, word, change)


def _decomposes(exam: Examination) -> bool:
    """Tell whether a matrix decomposition is part of the graph."""
    call = exam.subject.run()
    waiting, seen = [call.outputs[number].grad_fn for number in call.differentiable], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().startswith("Linalg") and any(word in node.name() for word in SINGULAR):
            return True
        waiting.extend(parent for parent, _ in node.next_functions)
    return False


def _points(exam: Examination) -> Iterator[tuple[str, list[Tensor], str]]:
    """Yield points to look at: in words, as values, and as the lines that go there."""
    values, active = exam.subject.values, exam.subject.active

    def point(word: str, changed: dict[int, Tensor], code: str) -> tuple[str, list[Tensor], str]:
        lines = ["inputs = list(inputs)"]
        for number in changed:
            reference = exam.reference(number)
            made = code.format(f"{reference}.detach()")
            if exam.subject.slots[number].parameter is None:
                lines.append(f"{reference} = ({made}).requires_grad_()")
            else:
                lines.append(f"{reference}.data = {made}")
        return word, [changed.get(n, value) for n, value in enumerate(values)], "\n".join(lines)

    zeros = {number: torch.zeros_like(values[number]) for number in active}
    for number in active:
        yield point(f"where {exam.name(number)} is zero", {number: zeros[number]}, "torch.zeros_like({0})")
    if len(active) > 1:
        yield point("where every input is zero", zeros, "torch.zeros_like({0})")
    for first, second in pairwise(active):
        if values[first].shape == values[second].shape:
            word = f"where {exam.name(first)} equals {exam.name(second)}"
            yield point(word, {second: values[first].clone()}, f"{exam.reference(first)}.detach().clone()")
    for magnitude in MAGNITUDES:
        scaled = {}
        for number in active:
            largest = float(values[number].abs().max()) if values[number].numel() else 0.0
            if largest and largest < float("inf"):
                scaled[number] = values[number] * (magnitude / largest)
        yield point(f"at magnitude {magnitude:g}", scaled, f"{{0}} * ({magnitude:g} / {{0}}.abs().max())")


def _look(
    exam: Examination, values: list[Tensor], gradients: dict[int, Tensor | None], word: str, change: str = ""
) -> None:
    """Report the first gradient that is not finite; ``change`` leads from the inputs given to ``values``."""
    upstream = None
    for number, gradient in gradients.items():
        if gradient is None or bool(gradient.isfinite().all()):
            continue
        flat = real_view(gradient)
        bad = (~flat.isfinite()).nonzero().reshape(-1).tolist()
        lost = [c for c in bad if bool(flat[c].isnan())]
        evidence: list[tuple[str, object]] = []
        if lost:
            chosen = lost[0]
        else:
            # Infinite is right where the true slope is: only a finite slope shows a mistake.
            upstream = upstream or exam.subject.upstream(exam.subject.run(values))
            chosen = None
            for coordinate in bad[:LOOKED_AT]:
                slope = exam.slope(values, upstream, number, coordinate)
                if slope.reliable and not slope.kink and not slope.infinite and slope.best is not None:
                    chosen = coordinate
                    evidence.append(("central difference says", slope.best))
                    break
            if chosen is None:
                if not change:
                    exam.remarks.append(
                        f"{exam.name(number)}: an infinite gradient, where the true slope is infinite."
                    )
                continue
        name = exam.name(number)
        reference = exam.reference(number)
        lines = f"{exam.opening(change)}\nprint(out, torch.autograd.grad(out, {reference}, v))"
        exam.report(
            "nan-gradient",
            f"the value is finite, the gradient of {name} is {'NaN' if lost else 'infinite'} {word}",
            [
                (f"{name}{position(chosen, values[number])}", float(real_view(values[number])[chosen])),
                ("gradient there", float(flat[chosen])),
                *evidence,
                ("coordinates affected", f"{len(bad)} of {flat.numel()}"),
            ],
            lines,
            subject=f"{name}",
        )
        return
