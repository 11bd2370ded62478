"""The same numbers, laid out otherwise in memory: the result must be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..examination import Examination
from ..failures import report_failure


def strided(tensor: Tensor) -> Tensor:
    """Return the same numbers at every second place of a larger memory."""
    if tensor.dim() == 0 or tensor.layout != torch.strided:
        return tensor.clone()
    wide = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 7)
    wide[..., ::2] = tensor
    return wide[..., ::2]


def transposed(tensor: Tensor) -> Tensor:
    """Return the same numbers, columns first."""
    if tensor.dim() < 2 or tensor.layout != torch.strided:
        return tensor.clone()
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def expanded(tensor: Tensor) -> Tensor:
    """Return a constant tensor of stride 0, as ``.sum()`` sends it.

    It lies at the start of a memory that is large enough for all its elements, so that code which reads on
    regardless stays inside.
    """
    memory = tensor.new_full((max(tensor.numel(), 1),), 7)
    memory[0] = 1.25
    return memory[0].expand(tensor.shape)


def upstream_layouts(exam: Examination) -> None:
    """Strided, transposed and expanded upstream gradients."""
    subject = exam.subject
    trials: tuple[tuple[str, Callable[[Tensor], Tensor], str], ...] = (
        ("expanded (stride 0)", expanded, "v = torch.tensor(1.25, dtype=out.dtype).expand(out.shape)"),
        ("strided", strided, "v = torch.stack([v, v], -1)[..., 0]"),
        ("transposed", transposed, "v = v.mT.contiguous().mT"),
    )
    for word, make, line in trials:
        call = subject.run()
        base = {
            n: torch.full_like(v, 1.25) if make is expanded else v for n, v in subject.upstream(call).items()
        }
        laid = {number: make(v) for number, v in base.items()}
        if all(v.is_contiguous() and v.dim() for v in laid.values()):
            continue
        reproduce = (
            f"{exam.opening()}\n{line}\nfor upstream in (v, v.contiguous()):\n"
            f"    print(torch.autograd.grad(out, {exam.reference(subject.active[0])}, upstream, retain_graph=True))"
        )
        try:
            wanted = subject.gradients(
                call, {n: v.clone(memory_format=torch.contiguous_format) for n, v in base.items()}
            )
        except Exception:
            continue
        try:
            found = subject.gradients(subject.run(), laid)
        except (Exception, SystemExit) as error:
            slug = report_failure(
                exam, error, f"when grad_output is {word}", reproduce, subject="upstream layout"
            )
            if slug == "raises":
                _rename(exam, error, word, reproduce)
            continue
        for number in wanted:
            if exam.differs(wanted[number], found[number]) and not _round_off(
                exam, number, wanted[number], found[number], subject.values, base
            ):
                exam.report(
                    "assumes-contiguous",
                    f"the gradient of {exam.name(number)} changes when grad_output is {word}",
                    [("contiguous grad_output", wanted[number]), (f"{word} grad_output", found[number])],
                    reproduce,
                    subject="upstream layout",
                )
                break


def _rename(exam: Examination, error: BaseException, word: str, reproduce: str) -> None:
    """Say what the exception really is about: the layout was all that differed."""
    exam.findings.pop()
    exam.report(
        "assumes-contiguous",
        f"backward raises {type(error).__name__} when grad_output is {word}",
        [("exception", str(error).split("\n")[0][:160])],
        reproduce,
        subject="upstream layout",
    )


def _input_trials(exam: Examination) -> Iterator[tuple[str, Callable[[int, Tensor], Tensor]]]:
    yield "strided", lambda number, leaf: strided(leaf)
    if any(slot.value.dim() > 1 for slot in exam.subject.slots):
        yield "transposed", lambda number, leaf: transposed(leaf)


def input_layouts(exam: Examination) -> None:
    """Strided and transposed inputs; expanded ones for inputs with more than one row."""
    subject = exam.subject
    if exam.has("inplace-input", "inplace-saved") or _works_in_place(exam):
        return
    if any(slot.value.layout != torch.strided for slot in subject.slots) or _draws_random_numbers(exam):
        # Random numbers are drawn in the order of memory: another layout rightly gives other values.
        return
    for word, arrange in _input_trials(exam):
        _compare(exam, word, arrange, None)
    shared = [
        slot.value[:1].expand(slot.value.shape).clone() if slot.value.dim() else slot.value
        for slot in subject.slots
    ]
    if any(slot.value.dim() and slot.value.shape[0] > 1 for slot in subject.slots):
        _compare(
            exam,
            "expanded",
            lambda number, leaf: (
                leaf[:1].clone().expand(leaf.shape) if leaf.dim() and leaf.shape[0] else leaf.clone()
            ),
            shared,
        )


def _works_in_place(exam: Examination) -> bool:
    call = exam.subject.run()
    return any(argument._version for argument in call.arguments.values())


def _draws_random_numbers(exam: Examination) -> bool:
    exam.subject.run()
    return exam.subject.rng.moved()


def _compare(
    exam: Examination, word: str, arrange: Callable[[int, Tensor], Tensor], values: list[Tensor] | None
) -> None:
    subject = exam.subject
    reproduce = _input_lines(exam, word, subject.active[0])

    def cloned(number: int, leaf: Tensor) -> Tensor:
        return leaf.clone(memory_format=torch.contiguous_format)

    try:
        plain = subject.run(values, arrange=cloned)
        upstream = subject.upstream(plain)
        wanted = subject.gradients(plain, upstream)
    except Exception:
        return
    if word == "expanded":
        # Through expand, the leaf's first row collects what the rows of the copy get one by one.
        wanted = {n: None if g is None else _collected(g) for n, g in wanted.items()}
    try:
        laid = subject.run(values, arrange=arrange)
    except (Exception, SystemExit) as error:
        if "contiguous" in str(error) and isinstance(error, ValueError | TypeError | AssertionError):
            return
        if report_failure(exam, error, f"on {word} inputs", reproduce, subject="input layout") == "raises":
            _rename_input(exam, error, word, reproduce)
        return
    for a, b in zip(plain.outputs, laid.outputs, strict=False):
        if a.is_floating_point() and exam.differs(a.detach(), b.detach()):
            exam.report(
                "assumes-contiguous",
                f"the value changes when the inputs are {word}",
                [("contiguous inputs", a.detach()), (f"{word} inputs", b.detach())],
                reproduce,
                subject="input layout",
                where=subject.where("forward"),
            )
            return
    try:
        found = subject.gradients(laid, upstream)
    except (Exception, SystemExit) as error:
        if report_failure(exam, error, f"on {word} inputs", reproduce, subject="input layout") == "raises":
            _rename_input(exam, error, word, reproduce)
        return
    at = subject.values if values is None else values
    for number in wanted:
        if exam.differs(wanted[number], found[number], 1e-7) and not _round_off(
            exam, number, wanted[number], found[number], at, upstream
        ):
            exam.report(
                "assumes-contiguous",
                f"the gradient of {exam.name(number)} changes when the inputs are {word}",
                [("contiguous inputs", wanted[number]), (f"{word} inputs", found[number])],
                _input_lines(exam, word, number),
                subject="input layout",
            )
            return


def _input_lines(exam: Examination, word: str, number: int) -> str:
    """The lines that show one input's gradient, with inputs laid out plainly and then as ``word`` says."""
    laid, least = {
        "strided": ("torch.stack([i, i], -1)[..., 0]", 1),
        "transposed": ("i.mT.contiguous().mT", 2),
        "expanded": ("i[:1].expand(i.shape)", 1),
    }[word]
    upcast, call = exam.opening().split("out = fn(*inputs)")
    body = f"out = fn(*inputs){call}\nprint(out, torch.autograd.grad(out, {exam.reference(number)}, v))"
    return (
        f"{upcast}given = inputs\nfor plain in (True, False):\n"
        f"    laid = [{laid} if torch.is_tensor(i) and i.dim() >= {least} else i for i in given]\n"
        "    inputs = [i.contiguous() if plain and torch.is_tensor(i) else i for i in laid]\n"
        + "\n".join(f"    {line}" for line in body.split("\n"))
    )


def _round_off(
    exam: Examination,
    number: int,
    a: Tensor | None,
    b: Tensor | None,
    values: list[Tensor],
    upstream: dict[int, Tensor],
) -> bool:
    """Tell whether the last digits of the inputs move the gradient as far: then another order of sums may, too.

    A batch of equal rows has no variance, say, and its normalisation magnifies round-off by hundreds.
    """
    subject, chance = exam.subject, torch.Generator().manual_seed(5)

    def nudged(value: Tensor) -> Tensor:
        if not (value.is_floating_point() or value.is_complex()):
            return value
        up = torch.rand(value.shape, generator=chance) > 0.5
        return torch.where(up, value * (1 + torch.finfo(value.dtype).eps), value)

    try:
        one, other = (
            subject.gradients(subject.run(each), {n: v.clone() for n, v in upstream.items()})[number]
            for each in (values, list(map(nudged, values)))
        )
        return float((a - b).abs().max()) <= 100 * float((one - other).abs().max())
    except Exception:  # one of the gradients is missing, or of another shape: that is no round-off
        return False


def _collected(gradient: Tensor) -> Tensor:
    if not gradient.dim() or not gradient.shape[0]:
        return gradient
    total = torch.zeros_like(gradient)
    total[0] = gradient.sum(0)
    return total


def _rename_input(exam: Examination, error: BaseException, word: str, reproduce: str) -> None:
    exam.findings.pop()
    exam.report(
        "assumes-contiguous",
        f"{type(error).__name__} when the inputs are {word}",
        [("exception", str(error).split("\n")[0][:160])],
        reproduce,
        subject="input layout",
    )
