"""The same thing again: same value, same gradient, nothing written over, no new random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from ..examination import Examination, differs
from ..failures import report_failure
from ..subject import Call, Subject
from .ctx import held


def same_value(exam: Examination) -> None:
    """Two calls from the same random state give the same value and gradient."""
    subject = exam.subject
    first, second = subject.run(), subject.run()
    pairs = zip(first.outputs, second.outputs, strict=False)
    for a, b in pairs:
        if a.shape != b.shape or (a.is_floating_point() and exam.differs(a.detach(), b.detach(), 1e-9)):
            exam.report(
                "nondeterministic",
                "forward gives different values for the same inputs and the same random state",
                [("first call", a.detach()), ("second call", b.detach())],
                "torch.manual_seed(0)\nfirst = fn(*inputs)\ntorch.manual_seed(0)\nprint(first, fn(*inputs))",
                subject="forward",
                where=subject.where("forward"),
            )
            return
    try:
        one, two = (_from_one_random_state(subject) for _ in range(2))
    except Exception:
        return
    for number in one:
        if exam.differs(one[number], two[number]):
            exam.report(
                "nondeterministic",
                f"two calls with the same inputs and random state give different gradients of {exam.name(number)}",
                [("first", one[number]), ("second", two[number])],
                f"{exam.opening()}\ntorch.manual_seed(0)\nprint(torch.autograd.grad(out, "
                f"{exam.reference(number)}, v))  # run twice",
                subject="backward",
            )
            return


def _from_one_random_state(subject: Subject) -> dict[int, Tensor | None]:
    call = subject.run()
    subject.rng.restore()
    return subject.gradients(call, subject.upstream(call))


def random_numbers_in_backward(exam: Examination) -> None:
    """Another random state at the time of backward must not change the gradient."""
    subject = exam.subject
    gradients, states = [], []
    for seed in (11, 12):
        call = subject.run()
        forward_draws = subject.rng.moved()
        subject.rng.seed(seed)
        gradients.append(subject.gradients(call, subject.upstream(call)))
        subject.run(fresh=False)
        states.append(torch.get_rng_state())
    if torch.equal(*states):
        subject.modes_changed.add("torch.manual_seed")
    for number in gradients[0]:
        if exam.differs(gradients[0][number], gradients[1][number]):
            exam.report(
                "mutable-state",
                f"backward draws random numbers: the gradient of {exam.name(number)} follows the seed",
                [
                    ("after manual_seed(11)", gradients[0][number]),
                    ("after manual_seed(12)", gradients[1][number]),
                ],
                f"{exam.opening()}\nfor seed in (11, 12):\n    torch.manual_seed(seed)\n"
                f"    print(torch.autograd.grad(out, {exam.reference(number)}, v, retain_graph=True))",
                subject="random state",
                explanation="Random state has moved on by the time backward runs, so what it draws is not what forward "
                "drew: the gradient belongs to another function."
                if forward_draws
                else "The state of a generator is shared by the whole process: whoever draws from it changes the gradient.",
                cure="Draw once in forward and keep the result with save_for_backward.",
            )
            if not forward_draws:
                exam.report(
                    "nondeterministic",
                    f"two backward passes through one forward give different gradients of {exam.name(number)}",
                    [("one pass", gradients[0][number]), ("another", gradients[1][number])],
                    f"{exam.opening()}\nfor _ in range(2):\n"
                    f"    print(torch.autograd.grad(out, {exam.reference(number)}, v, retain_graph=True))",
                    subject="random state",
                    explanation="forward draws nothing, so what it computes has one gradient; chance is added to it.",
                    cure="Leave chance out of backward; noise that is wanted belongs in the training loop.",
                )
            return


def again(exam: Examination) -> None:
    """A second backward under retain_graph gives the same, and nothing that was saved has changed."""
    subject = exam.subject
    call = subject.run()
    before_call = subject.outside()
    upstream = subject.upstream(call)
    handed = {number: tensor.clone() for number, tensor in upstream.items()}
    before = _saved(call)
    first = subject.gradients(call, handed, retain_graph=True)
    _upstream_kept(exam, upstream, handed)
    for label, (tensor, copy) in before.items():
        if differs(tensor, copy):
            exam.report(
                "inplace-saved",
                f"backward changes {label}",
                [("before backward", copy), ("after backward", tensor.detach())],
                f"{exam.opening()}\ntorch.autograd.grad(out, {_first(exam)}, v, retain_graph=True)\n"
                "print(out.grad_fn.saved_tensors, inputs, out)  # compare with before",
                subject="saved",
            )
            break
    reproduce = (
        f"{exam.opening()}\nfor _ in range(2):\n"
        f"    print(torch.autograd.grad(out, {_first(exam)}, v, retain_graph=True, allow_unused=True))"
    )
    try:
        subject.rng.restore()
        second = subject.gradients(
            call, {n: tensor.clone() for n, tensor in upstream.items()}, retain_graph=True
        )
    except (Exception, SystemExit) as error:
        if not exam.has("inplace-saved"):
            report_failure(exam, error, "in a second backward under retain_graph", reproduce, subject="again")
        return
    for number in first:
        if exam.differs(first[number], second[number]) and not exam.has("nondeterministic", "mutable-state"):
            if exam.has("inplace-saved"):
                return
            # What backward changed is either kept with this call, or outside of it.
            exam.report(
                "mutable-state" if subject.changed_outside(before_call) else "inplace-saved",
                f"a second backward gives another gradient of {exam.name(number)}",
                [("first backward", first[number]), ("second backward", second[number])],
                reproduce,
                subject="saved",
                explanation="backward leaves something behind, on ctx or elsewhere, that the next backward reads. "
                "Under retain_graph, and for gradients of several losses, backward runs more than once.",
                cure="Let backward depend only on what forward saved, and change none of it.",
            )
            return


def _first(exam: Examination) -> str:
    return exam.reference(exam.subject.active[0])


def _saved(call: Call) -> dict[str, tuple[Tensor, Tensor]]:
    """Return everything that backward could reach, each with a copy."""
    found: dict[str, Tensor] = {}
    for number, argument in call.arguments.items():
        found[f"input {number}, which belongs to the caller"] = argument
    for number, output in enumerate(call.outputs):
        found[f"output {number}, which belongs to the caller"] = output
    for node in call.nodes:
        try:
            saved = node.saved_tensors
        except RuntimeError:
            saved = ()
        for number, tensor in enumerate(saved):
            if isinstance(tensor, Tensor):
                found[f"saved_tensors[{number}]"] = tensor
        found.update(held(vars(node), "ctx"))
    usable = {k: t for k, t in found.items() if t.layout == torch.strided and t.numel() <= 1_000_000}
    return {label: (tensor, tensor.detach().clone()) for label, tensor in usable.items()}


def _upstream_kept(exam: Examination, sent: dict[int, Tensor], handed: dict[int, Tensor]) -> None:
    for number, tensor in handed.items():
        if differs(tensor, sent[number]) or tensor._version != 0:
            exam.report(
                "inplace-grad-output",
                "backward writes into grad_output",
                [("grad_output sent", sent[number]), ("after backward", tensor)],
                f"{exam.opening()}\nbefore = v.clone()\ntorch.autograd.grad(out, {_first(exam)}, v)\n"
                "print(before, v)",
            )
            return
