"""Each input alone requiring grad: the same gradient, and no needless work for the others."""

from __future__ import annotations

from torch import Tensor

from ..exam import Exam
from ..failures import report_failure


def each_alone(exam: Exam) -> None:
    """Freeze all inputs but one, for each of the first few."""
    patient = exam.patient
    if len(patient.active) < 2:
        return
    for number in patient.active[:8]:
        name = exam.name(number)
        frozen = ", ".join(exam.name(other) for other in patient.active if other != number)
        reproduce = (
            f"alone = [i.detach() if hasattr(i, 'detach') else i for i in inputs]\n"
            f"x = {exam.reference(number)}.detach().requires_grad_()\n"
            f"out = {exam.replaced(number, 'x').replace('*inputs', '*alone')}\n"
            "out.sum().backward()\nprint(x.grad)"
        )
        with patient.spying() as records:
            try:
                visit = patient.visit(active=[number])
                gradient = (
                    patient.gradients(visit, patient.upstream(visit))[number]
                    if visit.differentiable
                    else None
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
