"""Differentiate the gradient again: right, or refused, but never silently wrong."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..examination import Examination
from ..failures import refuses_second_derivative, report_failure, says
from ..slopes import measure, paired
from ..subject import Call, noise_like
from .ctx import held

DIRECTIONS = 2


def second_derivative(exam: Examination) -> None:
    """Compare the derivative of the gradient with differences of the gradient, along random directions."""
    subject = exam.subject
    if not subject.classes:
        return
    call = subject.run()
    upstream = {n: v.requires_grad_() for n, v in subject.upstream(call).items()}
    reproduce = (
        f"{exam.opening()}\nfrom torch.autograd import gradgradcheck\n"
        "print(gradgradcheck(fn, inputs))  # or: torch.autograd.grad(out, inputs, v, create_graph=True) and again"
    )
    try:
        gradients = subject.gradients(call, upstream, create_graph=True)
    except (Exception, SystemExit) as error:
        if refuses_second_derivative(error):
            return
        if isinstance(error, RuntimeError) and ("numpy()" in str(error) or "detach()" in str(error)):
            exam.report(
                "undeclared-once-differentiable",
                "backward cannot run under create_graph=True, and does not declare it",
                [("exception", says(error))],
                reproduce,
            )
        else:
            report_failure(exam, error, "under create_graph=True", reproduce, subject="create_graph")
        return
    weights = {
        n: noise_like(g, 200 + n) for n, g in gradients.items() if g is not None and bool(g.isfinite().all())
    }
    if not weights:
        return
    if any(_refused(gradients[n]) for n in weights):
        return
    connected = {n for n in weights if gradients[n].requires_grad}
    try:
        analytic = _again(exam, call, upstream, {n: gradients[n] for n in connected}, weights)
    except (Exception, SystemExit) as error:
        if not refuses_second_derivative(error):
            report_failure(exam, error, "in the second derivative", reproduce, subject="second")
        return
    _compare(exam, call, upstream, weights, analytic, connected, reproduce)


def _refused(gradient: Tensor) -> bool:
    """Tell whether ``once_differentiable`` put its error into the graph behind a gradient."""
    waiting, seen = [gradient.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node.name().endswith("Error"):
            return True
        seen.add(node)
        waiting.extend(parent for parent, _ in node.next_functions)
    return False


def _again(
    exam: Examination,
    call: Call,
    upstream: dict[int, Tensor],
    gradients: dict[int, Tensor],
    weights: dict[int, Tensor],
) -> dict[object, Tensor | None]:
    """Differentiate the weighted sum of gradients by every input and every upstream."""
    wanted = {**call.leaves, **{("v", n): v for n, v in upstream.items()}}
    if not gradients:
        return dict.fromkeys(wanted)
    found = torch.autograd.grad(
        list(gradients.values()), list(wanted.values()), [weights[n] for n in gradients], allow_unused=True
    )
    return dict(zip(wanted, found, strict=True))


def _compare(
    exam: Examination,
    call: Call,
    upstream: dict[int, Tensor],
    weights: dict[int, Tensor],
    analytic: dict[object, Tensor | None],
    connected: set[int],
    reproduce: str,
) -> None:
    subject = exam.subject
    fixed = {n: v.detach() for n, v in upstream.items()}

    def total(values: list[Tensor], sent: dict[int, Tensor]) -> float | None:
        try:
            gradients = subject.vjp(values, sent)
        except Exception:
            return None
        terms = [paired(weights[n], gradients[n]) for n in weights if gradients[n] is not None]
        if not all(bool(term.isfinite().all()) for term in terms):
            return None
        return math.fsum(float(term.sum()) for term in terms)

    size = max(
        (
            float(paired(w, exam.gradients[n]).abs().max())
            for n, w in weights.items()
            if w.numel() and exam.gradients.get(n) is not None
        ),
        default=1.0,
    )
    for by in [("v", n) for n in fixed] + list(subject.active):
        for seed in range(DIRECTIONS):
            origin = fixed[by[1]] if isinstance(by, tuple) else subject.values[by]
            direction = noise_like(origin, 300 + seed)
            found = analytic[by]
            claimed = 0.0 if found is None else float(paired(found, direction).sum())
            slope = measure(_moved(subject.values, fixed, by, direction, total), 0.0, exam.precision, size)
            if not slope.reliable or slope.kink or slope.infinite or slope.best is None:
                continue
            scale = max(abs(slope.best), size * 1e-3)
            if not slope.supports(claimed, 10 * scale):
                _report(exam, call, by, claimed, slope.best, slope.step, connected, reproduce)
                return


def _moved(
    values: list[Tensor],
    sent: dict[int, Tensor],
    by: object,
    direction: Tensor,
    total: Callable[[list[Tensor], dict[int, Tensor]], float | None],
) -> Callable[[float], float | None]:
    def at(offset: float) -> float | None:
        if isinstance(by, tuple):
            return total(values, {**sent, by[1]: sent[by[1]] + offset * direction})
        trial = list(values)
        trial[by] = trial[by] + offset * direction
        return total(trial, sent)

    return at


def _report(
    exam: Examination,
    call: Call,
    by: object,
    claimed: float,
    slope: float,
    step: float,
    connected: set[int],
    reproduce: str,
) -> None:
    named = "grad_output" if isinstance(by, tuple) else exam.name(by)
    numbers = [
        ("along a random direction of", named),
        ("differentiating backward gives", claimed),
        ("difference of gradients gives", slope),
        ("step", step),
    ]
    kept = intermediates(exam, call)
    leaves = isinstance(by, tuple) or not connected
    if kept and not leaves:
        exam.report(
            "saved-intermediate",
            f"the second derivative by {named} is silently wrong: {kept[0]} is neither input nor output",
            [*numbers, ("kept intermediates", ", ".join(kept))],
            reproduce,
        )
    elif leaves or not exam.has("wrong-gradient"):
        # The second derivative of a wrong gradient is no news.
        exam.report(
            "undeclared-once-differentiable",
            "backward leaves the graph: "
            + (
                "its gradient cannot be differentiated, and nothing refuses it"
                if leaves
                else f"the second derivative by {named} is silently wrong"
            ),
            numbers,
            reproduce,
            severity="error" if not leaves else None,
        )


def intermediates(exam: Examination, call: Call) -> list[str]:
    """Name what was kept that is neither input nor output: saved tensors, and what follows the input on ctx."""
    found = []
    for node in call.nodes:
        try:
            saved = list(node.saved_tensors)
        except RuntimeError:
            saved = []
        labelled = [(f"saved_tensors[{n}]", t) for n, t in enumerate(saved) if isinstance(t, Tensor)]
        labelled += list(held(vars(node), "ctx"))
        for label, tensor in labelled:
            if tensor.is_floating_point() and not tensor.requires_grad and not _constant(tensor, call):
                found.append(label)
    found += _numbers_that_follow(exam, call)
    return found


def _constant(tensor: Tensor, call: Call) -> bool:
    """Tell whether a tensor is an input that needs no gradient, which may well be kept."""
    return any(
        number not in call.leaves and tensor.shape == other.shape and tensor.data_ptr() == other.data_ptr()
        for number, other in call.arguments.items()
        if other.layout == torch.strided
    )


def _numbers_that_follow(exam: Examination, call: Call) -> list[str]:
    """Name Python numbers on ctx that change with the inputs."""
    if len(call.nodes) != 1:
        return []
    try:
        moved = [
            v * 1.01 + 1e-3 if n in exam.subject.active else v for n, v in enumerate(exam.subject.values)
        ]
        other = exam.subject.run(moved)
    except Exception:
        return []
    if len(other.nodes) != 1:
        return []
    before, after = vars(call.nodes[0]), vars(other.nodes[0])
    return [
        f"ctx.{name}"
        for name, value in before.items()
        if isinstance(value, float | complex) and name in after and after[name] != value
    ]
