"""Tensors that hang on ctx as attributes instead of going through save_for_backward."""

from __future__ import annotations

import dataclasses
import gc
import types
import weakref
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..examination import Examination
from ..subject import Call

DEPTH = 4


class _Marker:
    """Something to hang on a node, to see when the node is gone."""


def tensors_on_ctx(exam: Examination, call: Call) -> None:
    """Report tensors, and containers of tensors, among the attributes of ctx."""
    shared = {id(slot.original) for slot in exam.subject.state if isinstance(slot.original, Tensor)}
    for node in call.nodes:
        owner = type(node)._forward_cls
        for path, tensor in held(vars(node), "ctx"):
            if id(tensor) in shared:
                continue
            kind = _kind(tensor, call)
            numbers = [("kept as", path), ("it is", kind), ("seen by saved-tensor hooks", "no")]
            if kind == "an output":
                numbers.append(("freed when the output is dropped", _freed(exam)))
            exam.report(
                "tensor-on-ctx",
                f"{owner.__name__} keeps a tensor as {path} ({kind})",
                numbers,
                "out = fn(*inputs)\nprint(vars(out.grad_fn))  # tensors here have no version check and are not freed",
                subject=f"{owner.__name__} {path}",
                where=exam.subject.where("setup_context")
                if "setup_context" in vars(owner)
                else exam.subject.where("forward"),
            )


def held(value: object, path: str, depth: int = DEPTH) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a value holds, with the path to each; models are not looked into."""
    if isinstance(value, Tensor):
        yield path, value
    elif depth == 0 or isinstance(
        value, torch.nn.Module | types.ModuleType | type | np.ndarray | str | bytes
    ):
        return
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            yield from held(item, f"ctx.{key}" if path == "ctx" else f"{path}[{key!r}]", depth - 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, item in enumerate(value):
            yield from held(item, f"{path}[{number}]", depth - 1)
    elif dataclasses.is_dataclass(value) or str(type(value).__module__).split(".")[0] not in (
        "torch",
        "numpy",
        "builtins",
    ):
        for name, item in list(getattr(value, "__dict__", {}).items()):
            yield from held(item, f"{path}.{name}", depth - 1)


def _kind(tensor: Tensor, call: Call) -> str:
    if any(tensor is argument for argument in call.arguments.values()):
        return "an input"
    if any(tensor is output for output in call.outputs):
        return "an output"
    for known, word in (
        (call.arguments.values(), "a view of an input"),
        (call.outputs, "a view of an output"),
    ):
        if any(_overlaps(tensor, other) for other in known):
            return word
    return "an intermediate"


def _overlaps(a: Tensor, b: Tensor) -> bool:
    try:
        return a.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return False


def _freed(exam: Examination) -> str:
    """Drop every reference and see whether the node goes at once; the collector is held back meanwhile."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        call = exam.subject.run()
        marker = _Marker()
        gone = weakref.ref(marker)
        call.nodes[0].clinic_marker = marker
        del call, marker
        return "no, only by the garbage collector" if gone() is not None else "yes"
    finally:
        if collecting:
            gc.enable()
