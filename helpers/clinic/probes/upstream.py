"""What the gradient does with the upstream gradient: it must be linear in it."""

from __future__ import annotations

from torch import Tensor

from ..examination import Examination
from ..slopes import TOLERANCE


def linear(exam: Examination) -> None:
    """Double the upstream, and the gradient doubles; send zeros, and it is zero."""
    subject = exam.subject
    if subject.surrogate:
        return
    call = subject.run()
    one, other = subject.upstream(call, 0), subject.upstream(call, 100)
    tolerance = 1e-2 * TOLERANCE.get(exam.precision, 1e-5) ** 0.5
    single, double = exam.gradients, subject.vjp(upstream={n: 2 * v for n, v in one.items()})
    second = subject.vjp(upstream=other)
    both = subject.vjp(upstream={n: one[n] + other[n] for n in one})
    nothing = subject.vjp(upstream={n: 0 * v for n, v in one.items()})
    for number in single:
        name, reference = exam.name(number), exam.reference(number)
        reproduce = (
            f"{exam.opening()}\n"
            + ("v2 = 2 * v" if exam.outputs == 1 else "v2 = [2 * each for each in v]")
            + f"\nfor upstream in (v, v2):\n    print(torch.autograd.grad(out, {reference}, upstream, retain_graph=True))"
        )
        a, b = single[number], double[number]
        if a is None or not bool(a.isfinite().all()) or not exam.differs(a, 0 * a):
            continue
        if _not_a_number(nothing[number]):
            exam.report(
                "nan-gradient",
                f"the gradient of {name} is NaN when the upstream gradient is zero",
                [("upstream", "all zeros"), (f"gradient of {name}", nothing[number])],
                reproduce.replace("(v, v2)", "(0 * v,)"),
                subject=f"{name} at zero upstream",
            )
        elif not exam.differs(a, b, tolerance) and not exam.differs(a, nothing[number], tolerance):
            exam.report(
                "ignores-upstream",
                f"the gradient of {name} does not depend on grad_output",
                [("gradient for v", a), ("gradient for 2·v", b), ("should be", 2 * a)],
                reproduce,
                subject=name,
            )
        elif exam.differs(b, 2 * a, tolerance) or exam.differs(
            both[number], _sum(a, second[number]), tolerance
        ):
            constant = nothing[number] is not None and bool(nothing[number].any())
            shown = [("gradient for v", a), ("gradient for 2·v", b), ("should be", 2 * a)]
            exam.report(
                "wrong-gradient",
                f"the gradient of {name} is not linear in grad_output"
                + (": it has a term without grad_output" if constant else ""),
                [*shown, ("gradient for 0·v", nothing[number])],
                reproduce,
                subject=name,
                explanation="A gradient is a vector-Jacobian product: upstream times local derivative, so it grows in "
                "proportion to grad_output. If it is clipped or changed on purpose, declare that with a Surrogate.",
            )


def _sum(a: Tensor, b: Tensor | None) -> Tensor:
    return a if b is None else a + b


def _not_a_number(gradient: Tensor | None) -> bool:
    return gradient is not None and bool((gradient != gradient).any())
