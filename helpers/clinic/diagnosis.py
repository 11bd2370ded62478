"""``diagnose``: run every probe, keep the caller's world as it is, and hand back a report."""

from __future__ import annotations

from collections.abc import Callable

from .entries import ORDER
from .examination import Examination
from .failures import says
from .guard import TimeUp, settings_guard, time_limit
from .probes import baseline, changes, ctx, layout, outputs, repetition, second, shapes, stability, subsets
from .probes import upstream as upstream_probe
from .probes import values as value_probe
from .report import SEVERITIES, Report
from .subject import CannotExamine, Subject, timed, upcast, wrap

RANDOM = ("mutable-state", "nondeterministic")
WRITES = ("inplace-grad-output", "inplace-saved")

# (probe, the findings after which it could only repeat them)
PROBES: tuple[tuple[Callable[[Examination], None], tuple[str, ...]], ...] = (
    (repetition.same_value, ()),
    (repetition.random_numbers_in_backward, ("nondeterministic",)),
    (repetition.again, ()),
    (stability.at_the_sample, ()),
    (upstream_probe.linear, RANDOM),
    (value_probe.against_rule, RANDOM),
    (value_probe.against_differences, RANDOM),
    (subsets.each_alone, RANDOM),
    (layout.upstream_layouts, (*RANDOM, *WRITES)),
    (layout.input_layouts, (*RANDOM, *WRITES)),
    (outputs.some_unused, RANDOM),
    (outputs.none_upstream, ("unhandled-none",)),
    (second.second_derivative, (*RANDOM, *WRITES, "ignores-upstream")),
    (changes.another_call_between, ()),
    (changes.settings_changed_between, ()),
    (stability.elsewhere, RANDOM),
    (shapes.other_shapes, (*RANDOM, "wrong-gradient", "ignores-upstream", "nan-gradient")),
)


def diagnose(fn: Callable[..., object], *inputs: object, seconds: float = 20.0) -> Report:
    """Examine a custom gradient and name what is wrong with it.

    Args:
        fn: an ``autograd.Function`` class or its ``apply``, a plain function, or an ``nn.Module``.
        inputs: sample arguments. Gradients are examined of the tensors that require grad, or of every floating
            tensor when none does. Small inputs (up to 100 numbers) in float64 give the sharpest picture; single
            precision is raised to double where the Function allows it.
        seconds: time limit. Python code is stopped wherever it is; a call into compiled code that never returns
            cannot be.

    Returns:
        A report; findings above note level make it unhealthy. The inputs, their ``.grad``, the random state, grad
        mode, default dtype, warning filters and the Function's attributes are left as they were.

    Raises:
        ValueError: ``seconds`` is not positive.

    >>> import torch
    >>> diagnose(torch.sin, torch.tensor([0.5, 1.0], dtype=torch.double)).healthy
    True
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be positive; got {seconds!r}")
    with settings_guard():
        try:
            subject = wrap(fn, inputs)
        except CannotExamine as reason:
            return Report(getattr(fn, "__name__", type(fn).__name__), (), (f"{reason}.",), examined=False)
        exam = Examination(subject)
        running = "the first call"
        try:
            with time_limit(seconds):
                for running, probe in _probes(exam):
                    _safely(exam, probe, running)
        except TimeUp:
            _time_over(exam, running, seconds)
        except Exception as error:
            exam.remarks.append(f"The examination stopped during “{running}”: {says(error)}.")
            exam.failed = True
        finally:
            for slot in subject.state:
                slot.restore()
    order = {slug: number for number, slug in enumerate(ORDER)}
    found = sorted(exam.findings, key=lambda f: (SEVERITIES.index(f.severity), order[f.slug]))
    examined = bool(found) or not exam.failed
    return Report(subject.description(), tuple(found), tuple(dict.fromkeys(exam.remarks)), examined)


def _probes(exam: Examination):
    """Yield each probe with its name, as long as there is something left to examine."""
    subject = exam.subject
    given = subject.description()
    yield "style", lambda: baseline.style(exam)
    subject.look_for_state()
    raised = upcast(subject)
    calls: list = []
    yield "the first call", lambda: calls.append(baseline.first_call(exam))
    call = calls[0] if calls else None
    if call is None:
        return
    subject.look_for_state()
    yield "the first backward", lambda: baseline.first_backward(exam, call)
    subject.notice_changes()
    yield "style", lambda: (baseline.style(exam), baseline.separate(exam))
    yield "ctx", lambda: ctx.tensors_on_ctx(exam, subject.run())
    yield "global settings", lambda: changes.global_settings(exam)
    if raised:
        exam.report(
            "low-precision-check",
            f"{given} is in low precision; the examination "
            + ("was done in float64" if subject.upcasted else "had to allow for its round-off"),
            [("examined in", "float64" if subject.upcasted else "the dtype given")],
            "print(torch.autograd.gradcheck(fn, [i.double() for i in inputs]))",
            where="",
        )
    if exam.broken:
        return
    subject.seconds = timed(subject)
    for probe, after in PROBES:
        if not exam.has(*after):
            name = probe.__name__.replace("_", " ")
            yield name, lambda probe=probe: probe(exam)
    yield "global settings", lambda: changes.global_settings(exam)


def _safely(exam: Examination, probe: Callable[[], object], name: str) -> None:
    """Run a probe; an exception that it did not expect is a remark, never a crash."""
    try:
        probe()
    except (Exception, SystemExit) as error:
        exam.remarks.append(f"The probe “{name}” could not finish: {says(error)}.")


def _time_over(exam: Examination, running: str, seconds: float) -> None:
    subject: Subject = exam.subject
    ordinary = subject.seconds
    if ordinary and ordinary > seconds / 1000:
        exam.remarks.append(
            f"The time limit of {seconds:g} s was reached during “{running}”; later probes did not run."
        )
        return
    exam.report(
        "raises",
        f"it did not return within {seconds:g} s (during “{running}”)",
        [("time limit", f"{seconds:g} s")],
        "fn(*inputs)  # then .backward(); interrupt it to see where it is",
        subject="time",
        explanation="A call or a backward never came back; it was stopped.",
        cure="Give every loop an end, e.g. a largest number of iterations, and raise an error when it is reached.",
    )
