"""From an exception to a finding: what happened, in which method, and what to do about it."""

from __future__ import annotations

import os
import traceback

from torch.autograd import Function

from .examination import Examination
from .state import methods_of

REFUSALS = ("once_differentiable", "differentiate twice", "double backward", "second derivative", "twice")


def inside(error: BaseException, exam: Examination) -> tuple[str, str]:
    """Return the method an exception came from (``""`` for none of the Function's) and the place to look at."""
    owners = {
        function.__code__: (method, f"{owner.__name__}.{method}")
        for owner in exam.subject.classes
        for method, function in methods_of(owner).items()
    }
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code in owners:
            method, name = owners[frame.f_code]
            file = frame.f_code.co_filename
            typed = file.startswith("<") or "ipykernel" in file
            return method, name if typed else f"{name} ({os.path.basename(file)}:{line})"
    return "", exam.subject.label


def says(error: BaseException) -> str:
    """Return the type and the first line of an exception's message."""
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first[:160]}" if first else type(error).__name__


def refuses_second_derivative(error: BaseException) -> bool:
    """Tell an honest refusal of a second derivative from an accident."""
    message = str(error)
    return (
        isinstance(error, NotImplementedError)
        or any(word in message for word in REFUSALS)
        or ("derivative for" in message and "not implemented" in message)
    )


def report_failure(
    exam: Examination,
    error: BaseException,
    situation: str,
    reproduce: str,
    *,
    several: bool = False,
    subject: str = "",
) -> str:
    """Add the finding that explains an exception, and return its slug.

    Args:
        situation: when it happened, to follow "raised".
        several: whether some of several outputs were left unused.
        subject: keeps findings about different situations apart.
    """
    method, where = inside(error, exam)
    part = method or ("backward" if "backward" in situation else "the call")
    slug, title, explanation, cure = _explained(error, method, part, several, exam)
    exam.report(
        slug,
        f"{title} {situation}".strip(),
        [("exception", says(error))],
        reproduce,
        subject=subject,
        where=where,
        explanation=explanation,
        cure=cure,
    )
    return slug


def _explained(
    error: BaseException, method: str, part: str, several: bool, exam: Examination
) -> tuple[str, str, str, str]:
    message = str(error)
    if "incorrect number of gradients" in message:
        expected = message[message.rfind("(") :]
        return "wrong-gradient-count", f"backward returns the wrong number of gradients {expected}", "", ""
    if "invalid gradient at index" in message and "expected shape" in message:
        got = message[message.find("got ") :] if "got " in message else message
        return "gradient-shape", f"a gradient does not fit its input: {got}", "", ""
    if "does not require grad" in message and method in ("forward", "setup_context", "backward", "vjp"):
        return "graph-inside-forward", f"{method} differentiates something that has no graph:", "", ""
    if "single memory location" in message and method in ("backward", "vjp"):
        return (
            "inplace-grad-output",
            "backward writes into grad_output, and fails when it is expanded:",
            "",
            "",
        )
    if "view size is not compatible" in message and method:
        return "assumes-contiguous", f"{method} calls .view on a tensor that is not contiguous", "", ""
    if "modified by an inplace operation" in message:
        why = "A tensor was changed in place after it was saved; the version check of save_for_backward noticed."
        slug = "inplace-saved" if method in ("backward", "vjp") and exam.gradients else "raises"
        return slug, "a saved tensor was changed in place", why, "Save it after the change, or change a copy."
    if isinstance(error, TypeError | AttributeError) and "NoneType" in message and several:
        return "unhandled-none", f"{part} computes with the None it gets for an unused output", "", ""
    explanation, cure = _advice(error, message)
    if not explanation and part not in ("backward", "vjp"):
        explanation = (
            "Forward itself stops, so there is no gradient to examine: the inputs do not fit, or it is wrong."
        )
        cure = "Call it with these inputs on its own, and mend what the message says."
    return "raises", f"{part} raises {type(error).__name__}", explanation, cure


def _advice(error: BaseException, message: str) -> tuple[str, str]:
    if "CUDA" in message or "NVIDIA" in message or "cuda" in message:
        return (
            "It needs a GPU, and there is none here.",
            "Follow the input's device (`device=x.device`), or examine it on a machine with a GPU.",
        )
    if isinstance(error, NotImplementedError) and "backward or vjp" in message:
        return (
            "The Function defines no backward.",
            "Write a static backward, or mark the outputs non-differentiable.",
        )
    if (
        "object has no attribute" in message and "Backward" in message
    ) or "not enough values to unpack" in message:
        return "backward asks for something that forward never saved.", "Save it in forward or setup_context."
    if "a leaf Variable that requires grad" in message or "a view of a leaf" in message:
        return "It works in place on a leaf that requires grad.", "Work on a copy."
    if "Can't call numpy() on Tensor that requires grad" in message:
        return (
            "NumPy cannot see a tensor that is part of a graph; the graph ends where NumPy begins.",
            "Wrap the NumPy part in an autograd.Function with its own backward.",
        )
    if isinstance(error, RecursionError):
        return "It calls itself without end.", "Give the recursion an end."
    return "", ""


def defines_backward(owner: type[Function]) -> bool:
    """Tell whether a Function has a backward of its own."""
    return owner.backward is not Function.backward or owner.vjp is not Function.vjp
