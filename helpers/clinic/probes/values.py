"""The gradient against central differences, coordinate by coordinate."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...functions.contract import Surrogate, declared
from ..examination import Examination, rounded
from ..slopes import Slope, position, real_view
from .guesses import Mismatch, guess


def against_differences(exam: Examination) -> None:
    """Compare every sampled coordinate of every active input at the sample point."""
    subject = exam.subject
    if subject.surrogate:
        return
    call = subject.run()
    upstream = subject.upstream(call)
    kinks: list[str] = []
    for number in subject.active:
        total = real_view(subject.slots[number].value).numel()
        chosen = exam.coordinates(number)
        if len(chosen) < total:
            exam.remarks.append(f"{exam.name(number)}: {len(chosen)} of {total} coordinates were sampled.")
        if exam.found("ignores-upstream", exam.name(number)) or exam.found(
            "wrong-gradient", exam.name(number)
        ):
            continue
        slopes = {c: exam.slope(subject.values, upstream, number, c) for c in chosen}
        exam.slopes[number] = slopes
        kinks += [
            f"{exam.name(number)}{position(c, subject.values[number])}" for c, s in slopes.items() if s.kink
        ]
        compare(exam, number, exam.gradients.get(number), slopes, upstream)
    if kinks:
        exam.report(
            "kink",
            f"{len(kinks)} coordinate{'s' * (len(kinks) > 1)} lie{'s' * (len(kinks) == 1)} on a kink or a jump",
            [("at", ", ".join(kinks[:6]) + (", …" if len(kinks) > 6 else ""))],
            "print([i for i in inputs])  # move a little off these values and examine again",
            where=subject.where("forward"),
        )
        _beside_the_kink(exam, upstream)


BESIDE = (
    "noise = torch.Generator().manual_seed(7)  # a little off the kink\n"
    "inputs = [(i.detach() + 1e-2 * (0.5 + torch.rand(i.shape, generator=noise)).to(i.dtype)).requires_grad_()"
    " if torch.is_tensor(i) and i.requires_grad else i for i in inputs]"
)


def _beside_the_kink(exam: Examination, upstream: dict[int, Tensor]) -> None:
    """Compare again at a point moved a little, where there is a derivative."""
    subject = exam.subject
    moved = list(subject.values)
    for number in subject.active:
        noise = torch.rand(
            moved[number].shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64
        )
        moved[number] = moved[number] + (1e-2 * (0.5 + noise)).to(moved[number].dtype)
    try:
        gradients = subject.vjp(moved, upstream)
    except Exception:
        return
    for number in subject.active:
        if exam.name(number) not in {subject for _, subject in exam.subjects}:
            slopes = {c: exam.slope(moved, upstream, number, c) for c in exam.slopes.get(number, {})}
            compare(exam, number, gradients.get(number), slopes, upstream, moved, change=BESIDE)


def compare(
    exam: Examination,
    number: int,
    gradient: Tensor | None,
    slopes: dict[int, Slope],
    upstream: dict[int, Tensor],
    at: list[Tensor] | None = None,
    situation: str = "",
    change: str = "",
) -> bool:
    """Report a gradient that no step of the differences supports; tell whether one was reported.

    ``situation`` says in words, ``change`` in a line of code, how the inputs differ from those given.
    """
    values = exam.subject.values if at is None else at
    flat = torch.zeros_like(real_view(values[number])) if gradient is None else real_view(gradient)
    known = {c: s for c, s in slopes.items() if s.best is not None}
    if not known:
        return False
    scale = max(abs(s.best) for s in known.values())
    scale = scale if math.isfinite(scale) else 0.0
    analytic = {c: float(flat[c]) for c in known}
    wrong = [
        c
        for c, s in known.items()
        if math.isfinite(analytic[c]) and (s.reliable or s.kink) and not s.supports(analytic[c], scale)
    ]
    if not wrong:
        return False

    def slope(coordinate: int) -> Slope:
        return known.get(coordinate) or exam.slope(values, upstream, number, coordinate)

    if _right_among_symmetric(values[number], gradient, wrong, slope, scale):
        return False
    worst = max(wrong, key=lambda c: abs(analytic[c] - known[c].best))
    name = exam.name(number)
    place = position(worst, values[number])
    numbers = [
        ("worst coordinate", f"{name}{place}"),
        ("backward says", analytic[worst]),
        ("central difference says", known[worst].best),
        ("step", rounded(known[worst].step)),
        ("coordinates that disagree", f"{len(wrong)} of {len(known)} examined"),
    ]
    reproduce = _reproduce(exam, number, place, known[worst].step, change)
    absent = gradient is None or not bool(flat.any())
    if absent:
        given = "None" if gradient is None else "zeros"
        exam.report(
            "missing-gradient",
            f"{name} gets {given}, although the output depends on it{situation}",
            numbers,
            reproduce,
            subject=name,
        )
        return True
    mistake = guess(exam, Mismatch(number, list(known), analytic, known, gradient, upstream, values))
    if mistake:
        numbers.append(("tested guess", mistake.test))
    exam.report(
        "wrong-gradient",
        f"the gradient of {name} is wrong{situation}" + (f": {mistake.phrase}" if mistake else ""),
        numbers,
        reproduce,
        subject=name,
        cure=mistake.cure if mistake else "",
    )
    return True


def _right_among_symmetric(
    value: Tensor, gradient: Tensor | None, wrong: list[int], slope: Callable[[int], Slope], scale: float
) -> bool:
    """Tell whether a Function of symmetric matrices is right along symmetric changes.

    Such a Function (Cholesky, eigenvalues) may read one triangle and return a symmetric gradient: element by
    element that disagrees with differences, but not for any matrix in its domain.
    """
    if gradient is None or value.is_complex() or value.dim() != 2 or value.shape[0] != value.shape[1]:
        return False
    # A product such as a @ a.mT is symmetric up to its rounding only.
    if not torch.allclose(value, value.mT, rtol=1e-6) or not torch.allclose(gradient, gradient.mT, rtol=1e-6):
        return False
    size, flat = value.shape[0], real_view(gradient)
    for here in wrong:
        there = here % size * size + here // size
        both = slope(here).best, slope(there).best
        if None in both or abs(float(flat[here] + flat[there]) - sum(both)) > 1e-4 * scale:
            return False
    return True


def _reproduce(exam: Examination, number: int, place: str, step: float, change: str) -> str:
    reference = exam.reference(number)
    index = place.removesuffix(".real").removesuffix(".imag")
    step_text = f"{step:.0e}" + ("j" if place.endswith(".imag") else "")
    index = "" if index == "[]" else index
    target = f"up{index or '[()]'} += h; down{index or '[()]'} -= h"
    difference = (
        f"(({exam.replaced(number, 'up')} - {exam.replaced(number, 'down')}) * v).sum() / (2 * h)"
        if exam.outputs == 1
        else "sum(((up[k] - down[k]) * w).sum() for k, w in zip(keep, v)) / (2 * h)"
    )
    if exam.outputs > 1:
        target += f"\nup, down = {exam.replaced(number, 'up')}, {exam.replaced(number, 'down')}"
    return (
        f"{exam.opening(change)}\n(g,) = torch.autograd.grad(out, [{reference}], v, allow_unused=True)\n"
        f"h, up, down = {step_text}, {reference}.detach().clone(), {reference}.detach().clone()\n"
        f"{target}\nprint(g if g is None else g{index}, {difference})"
    )


def against_rule(exam: Examination) -> None:
    """Compare the gradients of declared surrogates with the rule that they declare."""
    subject = exam.subject
    owners = [owner for owner in subject.classes if declared(owner, Surrogate)]
    if not owners:
        return
    for owner in owners:
        exam.report(
            "declared-surrogate",
            f"{owner.__name__} declares: {declared(owner, Surrogate).rule}",
            [("rule", declared(owner, Surrogate).rule)],
            f"print({owner.__name__}.surrogate)",
            subject=owner.__name__,
        )
    if subject.owner not in owners:
        exam.remarks.append(
            "It contains declared surrogates, so the whole was not compared with finite differences."
        )
        return
    rule = declared(subject.owner, Surrogate)
    for seed in (0, 100):
        call = subject.run()
        upstream = subject.upstream(call, seed)
        gradients = subject.gradients(call, upstream)
        arguments = list(subject.leaves)
        for number, slot in enumerate(subject.slots):
            arguments[slot.leaf] = subject.slots[number].value
        whole = tuple(upstream.get(n, torch.zeros_like(o)) for n, o in enumerate(call.outputs))
        try:
            with torch.no_grad():
                promised = rule.vjp(whole, *arguments)
        except Exception as error:
            exam.remarks.append(
                f"The declared rule itself raises {type(error).__name__}; it was not checked."
            )
            return
        for number, gradient in gradients.items():
            slot = subject.slots[number]
            expected = promised[slot.leaf] if slot.leaf < len(promised) else None
            if isinstance(expected, Tensor):
                expected = (
                    expected.sum_to_size(slot.value.shape) if expected.shape != slot.value.shape else expected
                )
            if exam.differs(gradient, expected, 1e-6 if slot.value.dtype == torch.float64 else 1e-3):
                exam.report(
                    "wrong-gradient",
                    f"the gradient of {slot.name} departs from the declared rule {rule.rule}",
                    [("backward says", gradient), ("the rule says", expected)],
                    f"{exam.opening()}\nprint(torch.autograd.grad(out, {exam.reference(number)}, v), "
                    f"{subject.owner.__name__}.surrogate.vjp((v,), *inputs))",
                    subject=slot.name,
                    explanation="The Function declares a surrogate gradient, and its backward does something else.",
                    cure="Bring backward and the declared rule together.",
                )
