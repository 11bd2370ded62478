"""The first call and the first backward: style, exceptions, counts, dtypes, values that are not numbers."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor
from torch.autograd import Function

from ..examination import Examination, differs
from ..failures import report_failure
from ..state import code_of
from ..subject import BackwardCall, Call, place_of, single_inside

WIDTH = {torch.float16: 2, torch.bfloat16: 2, torch.float32: 4, torch.complex64: 4}


def style(exam: Examination) -> None:
    """Static methods, the class rather than an instance, forward apart from setup_context."""
    subject = exam.subject
    for owner in subject.classes:
        for name in ("forward", "backward", "setup_context", "vjp"):
            raw = inspect.getattr_static(owner, name, None)
            if inspect.isfunction(raw) and not str(raw.__module__).startswith("torch."):
                exam.report(
                    "legacy-style",
                    f"{owner.__name__}.{name} is not a static method",
                    [("first parameter", next(iter(inspect.signature(raw).parameters), "none"))],
                    f"import inspect\nprint(type(inspect.getattr_static({owner.__name__}, {name!r})))",
                    subject=f"{owner.__name__}.{name}",
                    where=place_of(raw, f"{owner.__name__}.{name}"),
                )
    if subject.legacy_instance:
        exam.report(
            "legacy-style",
            "an instance of the Function was given; a Function is used through its class",
            [("given", f"an instance of {subject.owner.__name__}")],
            "fn(*inputs)  # RuntimeError: Legacy autograd function with non-static forward method is deprecated",
            subject="instance",
        )


def separate(exam: Examination) -> None:
    """Note the combined style, which torch.func refuses."""
    for owner in exam.subject.classes:
        if owner.setup_context is Function.setup_context and code_of(owner.forward) is not None:
            exam.report(
                "no-setup-context",
                f"{owner.__name__} keeps forward and ctx together, so torch.func transforms refuse it",
                [("setup_context overridden", "no")],
                "torch.func.grad(lambda *i: fn(*i).sum())(*inputs)  # RuntimeError: ... setup_context",
                subject=owner.__name__,
                where=place_of(code_of(owner.forward), f"{owner.__name__}.forward"),
            )


def first_call(exam: Examination) -> Call | None:
    """Call once; report what forward does to its inputs and whether its value is a number."""
    subject = exam.subject
    try:
        call = subject.run()
    except (Exception, SystemExit) as error:
        report_failure(exam, error, "on the inputs given", "fn(*inputs)", subject="forward")
        exam.broken = True
        return None
    exam.output_dtypes = [call.outputs[number].dtype for number in call.differentiable]
    exam.outputs = len(call.outputs)
    _side_gradients(exam, call)
    _inplace_input(exam, call)
    _finite(exam, call)
    return call


def _side_gradients(exam: Examination, call: Call) -> None:
    for number, leaf in call.leaves.items():
        if leaf.grad is not None:
            exam.report(
                "graph-inside-forward",
                f"forward calls backward() and adds to {exam.name(number)}.grad",
                [(f"{exam.name(number)}.grad after forward", leaf.grad)],
                f"fn(*inputs)\nprint({exam.reference(number)}.grad)",
                where=exam.subject.where("forward"),
            )


def _inplace_input(exam: Examination, call: Call) -> None:
    for number, argument in call.arguments.items():
        if (
            not exam.subject.classes
            or argument.layout != torch.strided
            or any(o is argument for o in call.outputs)
        ):
            continue
        before = exam.subject.slots[number].value
        if (
            differs(argument.detach(), before)
            if argument.dtype.is_floating_point
            else bool((argument != before).any())
        ):
            exam.report(
                "inplace-input",
                f"forward overwrites {exam.name(number)} without mark_dirty",
                [(f"{exam.name(number)} before", before), (f"{exam.name(number)} after", argument.detach())],
                f"x = {exam.reference(number)}.detach().clone()\n{exam.replaced(number, 'x')}\n"
                f"print({exam.reference(number)}, x)",
                subject=exam.name(number),
                where=exam.subject.where("forward"),
            )


def _finite(exam: Examination, call: Call) -> None:
    given = [slot.value for slot in exam.subject.slots]
    if not all(bool(value.isfinite().all()) for value in given if value.layout == torch.strided):
        return
    for output in call.outputs:
        if (output.is_floating_point() or output.is_complex()) and output.layout == torch.strided:
            bad = ~output.detach().isfinite()
            if bool(bad.any()):
                exam.report(
                    "non-finite-forward",
                    f"{int(bad.sum())} of {output.numel()} output values are not finite, though every input is",
                    [("output", output.detach())],
                    "print(fn(*inputs))",
                    where=exam.subject.where("forward"),
                )
                exam.remarks.append("Values that are not finite were left out of the comparisons.")
                return


def first_backward(exam: Examination, call: Call) -> None:
    """Take one gradient; report exceptions, counts and dtypes."""
    subject = exam.subject
    if not call.differentiable:
        _cut(exam, call)
        exam.broken = True
        return
    with subject.spying() as records:
        try:
            exam.gradients = subject.gradients(call, subject.upstream(call))
        except (Exception, SystemExit) as error:
            reproduce = f"{exam.opening()}\ntorch.autograd.grad(out, {_active(exam)}, v, allow_unused=True)"
            report_failure(exam, error, "in the first backward", reproduce, subject="backward")
            exam.broken = True
    for record in records:
        _count(exam, record)
        _dtypes(exam, record)
    _coarse_forward(exam, call)


def _active(exam: Examination) -> str:
    return "[" + ", ".join(exam.reference(number) for number in exam.subject.active) + "]"


def _cut(exam: Examination, call: Call) -> None:
    """Report a graph that ends before the output, unless the output has no gradient by nature."""
    if exam.subject.owner is not None:
        exam.remarks.append("No output is differentiable (all are integers or marked non-differentiable).")
        return
    subject = exam.subject
    floating = [n for n, o in enumerate(call.outputs) if o.is_floating_point() or o.is_complex()]
    if not floating:
        exam.remarks.append(
            "No output is a floating or complex tensor, so there is nothing to differentiate."
        )
        return
    upstream = {n: torch.ones_like(call.outputs[n]) for n in floating}
    exam.output_dtypes = [call.outputs[n].dtype for n in floating]
    for number in subject.active:
        for coordinate in exam.coordinates(number):
            slope = exam.slope(subject.values, upstream, number, coordinate)
            if slope.reliable and slope.best and not slope.supports(0.0, 0.0):
                exam.report(
                    "missing-gradient",
                    f"the output depends on {exam.name(number)}, but has no graph: no gradient reaches it",
                    [("output.requires_grad", "False"), ("slope by central difference", slope.best)],
                    "print(fn(*inputs).requires_grad)",
                    subject=exam.name(number),
                )
                break


def _count(exam: Examination, record: BackwardCall) -> None:
    parameters = list(inspect.signature(record.owner.forward).parameters.values())
    if record.owner.setup_context is Function.setup_context:
        parameters = parameters[1:]
    open_ended = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    passed = len(record.needed)
    allowed = passed if open_ended else max(passed, len(parameters))
    got = len(record.returned)
    if got < passed or got > allowed:
        exam.report(
            "wrong-gradient-count",
            f"backward returns {got} gradient{'s' * (got != 1)} for {passed} argument{'s' * (passed != 1)} of forward",
            [("arguments passed", passed), ("values returned", got)],
            f"{exam.opening()}\nprint(torch.autograd.grad(out, {_active(exam)}, v))  # extra trailing Nones pass silently",
            subject="backward",
            severity="error" if got < passed else "warning",
        )


def _dtypes(exam: Examination, record: BackwardCall) -> None:
    if exam.subject.upcasted:
        return
    slots = {slot.leaf: slot for slot in exam.subject.slots if slot.active}
    narrowest = min(WIDTH.get(slot.value.dtype, 8) for slot in slots.values())
    for index, (gradient, needed) in enumerate(zip(record.returned, record.needed, strict=False)):
        if not isinstance(gradient, Tensor) or not needed:
            continue
        if exam.subject.owner is not None:
            wanted = WIDTH.get(slots[index].value.dtype, 8) if index in slots else 0
        else:
            # Inside a larger function the argument's dtype is not known: it is no wider than all of these.
            arrived = [WIDTH.get(item.dtype, 8) for item in record.upstream if isinstance(item, Tensor)]
            wanted = min([narrowest, *arrived]) if len(exam.subject.classes) == 1 else 0
        if WIDTH.get(gradient.dtype, 8) < wanted:
            exam.report(
                "dtype-loss",
                f"backward returns {_short(gradient.dtype)} for a {_wide(exam)} input",
                [("dtype returned", _short(gradient.dtype)), ("dtype of the input", _wide(exam))],
                f"{exam.opening()}\nnode = (out if torch.is_tensor(out) else out[0]).grad_fn\n"
                "node.register_hook(lambda gives, gets: print([g.dtype for g in gives if g is not None]))\n"
                f"torch.autograd.grad(out, {exam.reference(exam.subject.active[0])}, v)  # the engine casts it back silently",
                subject=f"gradient {index}",
            )


def _coarse_forward(exam: Examination, call: Call) -> None:
    """Report float64 values that carry no more digits than float32, though their inputs do."""
    subject = exam.subject
    if subject.upcasted or any(s.value.dtype != torch.float64 for s in subject.slots if s.active):
        return
    for number, single in enumerate(single_inside(subject, call)):
        if single and number in call.differentiable:
            output = call.outputs[number].detach()
            exam.report(
                "dtype-loss",
                "forward computes in float32 inside, although inputs and output are float64",
                [("output", output), ("largest change by rounding to float32", "0")],
                "out = fn(*inputs)\nprint((out.float().double() == out).all())  # True: no digit beyond float32",
                subject="forward",
                where=subject.where("forward"),
            )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _wide(exam: Examination) -> str:
    return next(_short(slot.value.dtype) for slot in exam.subject.slots if slot.active)
