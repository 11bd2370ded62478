"""Inputs of other shapes: 0-d, one element, none at all."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ..examination import Examination
from ..failures import report_failure
from ..slopes import real_view
from .values import compare


def other_shapes(exam: Examination) -> None:
    """Compare with differences wherever forward accepts the shape; a refusal is no finding."""
    subject = exam.subject
    if subject.surrogate or subject.module is not None or not subject.classes:
        return
    for word, values, change in _variants(exam):
        try:
            call = subject.run(values)
        except (Exception, SystemExit):
            continue
        if not call.differentiable or not all(
            bool(call.outputs[n].detach().isfinite().all()) for n in call.differentiable
        ):
            continue
        upstream = subject.upstream(call)
        try:
            gradients = subject.gradients(call, upstream)
        except (Exception, SystemExit) as error:
            if "expected shape" in str(error):
                reference = exam.reference(subject.active[0])
                lines = f"{exam.opening(change)}\ntorch.autograd.grad(out, {reference}, v)"
                report_failure(exam, error, f"when {word}", lines, subject=word)
            continue
        for number in subject.active:
            if exam.name(number) in {subject for _, subject in exam.subjects}:
                continue
            count = min(real_view(values[number]).numel(), 6)
            slopes = {c: exam.slope(values, upstream, number, c) for c in range(count)}
            situation = f" when {word}"
            if compare(exam, number, gradients[number], slopes, upstream, values, situation, change):
                return


def _variants(exam: Examination) -> Iterator[tuple[str, list[Tensor], str]]:
    """Yield other shapes for elementwise Functions, whose output has the shape that all inputs have.

    Each with the line that makes it.
    """
    subject, values = exam.subject, exam.subject.values
    outputs = subject.run().outputs
    shapes = {value.shape for value in [*values, *outputs]}
    if len(shapes) != 1 or not values[0].numel():
        return
    for word, part, index in (
        ("every input is 0-d", 0, "0"),
        ("every input has one element", slice(1), ":1"),
        ("every input is empty", slice(0), ":0"),
    ):
        change = (
            f"inputs = [i.detach().reshape(-1)[{index}].clone().requires_grad_(i.requires_grad)"
            " if torch.is_tensor(i) else i for i in inputs]"
        )
        yield word, [value.reshape(-1)[part].clone() for value in values], change
