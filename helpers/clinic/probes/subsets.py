"""Each input alone requiring grad: the same gradient, and no needless work for the others."""

from __future__ import annotations

from torch import Tensor

from ..examination import Examination
from ..failures import report_failure


def each_alone(exam: Examination) -> None:
    """Freeze all inputs but one, for each of the first few."""
    subject = exam.subject
    if len(subject.active) < 2:
        return
    for number in subject.active[:8]:
        name = exam.name(number)
        frozen = ", ".join(exam.name(other) for other in subject.active if other != number)
        reproduce = (
            f"alone = [i.detach() if hasattr(i, 'detach') else i for i in inputs]\n"
            f"x = {exam.reference(number)}.detach().requires_grad_()\n"
            f"out = {exam.replaced(number, 'x').replace('*inputs', '*alone')}\n"
            "out.sum().backward()\nprint(x.grad)"
        )
        with subject.spying() as records:
            try:
                call = subject.run(active=[number])
                gradient = (
                    subject.gradients(call, subject.upstream(call))[number] if call.differentiable else None
                )
            except (Exception, SystemExit) as error:
                report_failure(
                    exam, error, f"when only {name} requires grad", reproduce, subject=f"alone {name}"
                )
                continue
        full = exam.gradients.get(number)
        if exam.differs(gradient, full, 1e-7):
            slug = "missing-gradient" if gradient is None or not bool(gradient.any()) else "wrong-gradient"
            exam.report(
                slug,
                f"the gradient of {name} changes when {frozen} need{'s' * (',' not in frozen)} none",
                [("all require grad", full), (f"only {name} does", gradient)],
                reproduce,
                subject=name,
                cure="Guard each gradient by its own entry of ctx.needs_input_grad, in the order of the arguments.",
            )
        for record in records:
            extra = [
                place
                for place, (returned, needed) in enumerate(zip(record.returned, record.needed, strict=False))
                if isinstance(returned, Tensor) and not needed
            ]
            if extra:
                exam.report(
                    "needless-gradient",
                    f"{record.owner.__name__}.backward computes gradients that nobody needs",
                    [("when only this input needs one", name), ("arguments computed in vain", str(extra))],
                    reproduce,
                    subject=record.owner.__name__,
                )
