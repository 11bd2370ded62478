"""Several outputs of which some are unused, and upstream gradients that are None."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function

from ..examination import Examination
from ..failures import report_failure


class _Silent(Function):
    """Passes its input on, and sends back None: the gradient that an unused branch sends."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> None:
        return None


def some_unused(exam: Examination) -> None:
    """Use one output at a time; the gradients of all of them add up to the whole."""
    subject = exam.subject
    call = subject.run()
    if len(call.differentiable) < 2:
        return
    upstream = subject.upstream(call)
    total: dict[int, Tensor | None] = dict.fromkeys(subject.active)
    for number in call.differentiable:
        reproduce = (
            f"out = fn(*inputs)[{number}]\n"
            f"print(torch.autograd.grad(out.sum(), {exam.reference(subject.active[0])}, allow_unused=True))"
        )
        try:
            share = subject.gradients(subject.run(), {number: upstream[number]})
        except (Exception, SystemExit) as error:
            report_failure(
                exam,
                error,
                f"when only output {number} is used",
                reproduce,
                several=True,
                subject=f"only {number}",
            )
            return
        for slot, gradient in share.items():
            if gradient is not None:
                total[slot] = gradient if total[slot] is None else total[slot] + gradient
    for slot, gradient in total.items():
        if subject.surrogate or exam.has("wrong-gradient", "ignores-upstream"):
            return
        if exam.differs(gradient, exam.gradients.get(slot), 1e-7):
            exam.report(
                "wrong-gradient",
                f"the gradients of {exam.name(slot)} through each output alone do not add up to the gradient of all",
                [("sum over the outputs", gradient), ("all at once", exam.gradients.get(slot))],
                reproduce,
                subject=exam.name(slot),
            )


def none_upstream(exam: Examination) -> None:
    """Send None to a backward that asked for it with ``set_materialize_grads(False)``."""
    subject = exam.subject
    if not subject.classes:
        return
    call = subject.run()
    results = [_Silent.apply(call.outputs[number]) for number in call.differentiable]
    reproduce = (
        "class Silent(torch.autograd.Function):  # sends None back\n"
        "    forward = staticmethod(lambda ctx, x: x.clone())\n"
        "    backward = staticmethod(lambda ctx, g: None)\n"
        "Silent.apply(fn(*inputs)).sum().backward()"
    )
    try:
        torch.autograd.grad(
            results, list(call.leaves.values()), [torch.ones_like(r) for r in results], allow_unused=True
        )
    except (TypeError, AttributeError) as error:
        report_failure(
            exam,
            error,
            "when the upstream gradient is None",
            reproduce,
            several=True,
            subject="None upstream",
        )
    except Exception:
        return
