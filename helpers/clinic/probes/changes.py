"""State that changes between forward and backward."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from ..examination import Examination
from ..failures import says
from ..guard import SETTINGS
from ..state import StateSlot
from ..subject import Call


def another_call_between(exam: Examination) -> None:
    """Call forward and backward on other inputs in between; the first gradient must not notice."""
    subject = exam.subject
    if exam.has("nondeterministic", "mutable-state") or not subject.classes:
        return
    first = subject.run()
    upstream = subject.upstream(first)
    moved = [
        value * 1.5 + 0.1 if number in subject.active else value
        for number, value in enumerate(subject.values)
    ]
    second, later = None, {}
    for other in (moved, subject.values):
        try:
            second = subject.run(other, fresh=False)
            later = subject.gradients(second, subject.upstream(second))
            break
        except Exception:
            continue
    if subject.mutated:
        # Calls leave something behind, so once more with other settings and of another shape: both may be
        # refused, which is no fault. Without such state it is not tried: kernels that do not check shapes
        # must not be sent others than those given.
        with contextlib.suppress(Exception):
            subject.run(moved, fresh=False, settings=_other_setting)
        with contextlib.suppress(Exception):
            shorter = [value[:1] if value.dim() else value for value in moved]
            subject.run(shorter, fresh=False, settings=_other_setting)
    reproduce = (
        f"{exam.opening()}\nalone = torch.autograd.grad(out, {exam.reference(subject.active[0])}, v, retain_graph=True)\n"
        "fn(*[i * 1.5 + 0.1 if torch.is_tensor(i) and i.is_floating_point() else i for i in inputs])"
        "  # another call\n"
        f"print(alone, torch.autograd.grad(out, {exam.reference(subject.active[0])}, v))"
    )
    changed = [slot.name for slot in subject.state if slot.changed()]
    explanation = (
        f"What changed meanwhile: {', '.join(changed[:4])}. " if changed else ""
    ) + "The gradient belongs to a function that was never computed, without any error."
    numbers = []
    try:
        gradients = subject.gradients(first, upstream)
    except (Exception, SystemExit) as error:
        numbers = [("backward alone", "works"), ("after another call", says(error))]
        gradients = {}
    for number, gradient in gradients.items():
        if exam.differs(gradient, exam.gradients.get(number), 1e-7):
            numbers = [
                (f"gradient of {exam.name(number)} alone", exam.gradients.get(number)),
                ("after another call", gradient),
            ]
            break
    numbers = numbers or _second_call_wrong(exam, second, other, later)
    if numbers:
        exam.report(
            "mutable-state",
            "the gradient changes when the Function is called once more before backward",
            numbers,
            reproduce,
            subject="another call",
            explanation=explanation,
        )
    subject.refresh()
    for slot in subject.state:
        slot.restore()


def _other_setting(value: object) -> object:
    """Return another value for a number among the arguments."""
    return value * 0.5 + 0.1 if isinstance(value, float) else value


def _second_call_wrong(
    exam: Examination, second: Call | None, values: list[Tensor], later: dict[int, Tensor | None]
) -> list[tuple[str, object]]:
    """Compare the other call's own gradient with the one it has when nothing came before it."""
    if second is None:
        return []
    alone = exam.subject.run(values)
    if any(exam.differs(a, b) for a, b in zip(alone.outputs, second.outputs, strict=False)):
        return []
    for number, gradient in exam.subject.gradients(alone, exam.subject.upstream(alone)).items():
        if exam.differs(gradient, later.get(number), 1e-7):
            name = exam.name(number)
            return [(f"gradient of {name} alone", gradient), ("after an earlier call", later.get(number))]
    return []


def settings_changed_between(exam: Examination) -> None:
    """Change class attributes and other settings that both methods read; the gradient must not notice."""
    subject = exam.subject
    if exam.has("nondeterministic") or not subject.classes:
        return
    for slot in subject.state:
        if not _may_be_changed(slot) or slot.changed():
            continue
        other = _another(slot.original)
        if other is None or slot.write is None:
            continue
        call = subject.run()
        upstream = subject.upstream(call)
        try:
            slot.write(other)
            gradients = subject.gradients(call, upstream)
            values = subject.run(fresh=False).outputs
        except Exception:
            continue
        finally:
            slot.write(slot.original)
        read_in_forward = any(
            exam.differs(a.detach(), b.detach())
            for a, b in zip(call.outputs, values, strict=False)
            if a.is_floating_point()
        )
        for number, gradient in gradients.items():
            if read_in_forward and exam.differs(gradient, exam.gradients.get(number), 1e-7):
                exam.report(
                    "mutable-state",
                    f"backward reads {slot.name} again; changing it after forward changes the gradient",
                    [
                        (f"{slot.name} = {_shown(slot.original)} all along", exam.gradients.get(number)),
                        (f"{slot.name} = {_shown(other)} set before backward", gradient),
                    ],
                    f"{exam.opening()}\n{slot.name} = {_shown(other)}  # after forward, before backward\n"
                    f"print(torch.autograd.grad(out, {exam.reference(number)}, v))",
                    subject=slot.name,
                )
                break


def _may_be_changed(slot: StateSlot) -> bool:
    """Tell settings from constants: names in capitals are constants, and so is what a closure was made with."""
    if slot.kind == "item":
        # What calls put into a container is a cache, and a tensor of many numbers is a table.
        table = isinstance(slot.original, Tensor) and slot.original.numel() > 1
        return not slot.made_by_calls and not table
    if slot.kind == "global":
        return not isinstance(slot.original, Tensor) and (not slot.name.isupper() or slot.assigned_elsewhere)
    return slot.kind in ("class attribute", "attribute") and not slot.name.split(".")[-1].isupper()


def _another(value: object) -> object | None:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.5 if value else 1.0
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach() * 1.5 + 0.25
    return None


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, int | float) else "another tensor"


def global_settings(exam: Examination) -> None:
    """Report settings of PyTorch that the Function changed, and a seed that it set."""
    for name in sorted(exam.subject.modes_changed):
        tell = f"torch.{SETTINGS.get(name, torch.initial_seed).__name__}()"
        exam.report(
            "mutable-state",
            f"the call changes a global setting of PyTorch ({name}) and leaves it changed",
            [("changed by calling fn", name)],
            f"before = {tell}\nfn(*inputs)\nprint(before, {tell})",
            subject=name,
            severity="warning",
            explanation="Everything that runs afterwards in the same process runs under another setting.",
            cure="Use the context manager form, which puts the setting back.",
        )
