"""State that outlives one call: class attributes, globals, closures and default arguments a Function reads."""

from __future__ import annotations

import contextlib
import copy
import dis
import inspect
import random
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.autograd import Function

from ..functions.contract import Support, Surrogate

METHODS = ("forward", "backward", "setup_context", "vjp", "jvp", "vmap")
DEPTH = 3
LARGE = 1_000_000


@dataclass
class StateSlot:
    """One piece of state: where it lives, how to read it and how to replace it.

    ``kind`` is one of ``"class attribute"``, ``"global"``, ``"closure"``, ``"default"``, ``"item"``,
    ``"attribute"``, ``"buffer"``; ``name`` is how a reader would write it.
    """

    kind: str
    name: str
    read: Callable[[], object]
    write: Callable[[object], None] | None
    kept: object = field(default=None)
    original: object = field(default=None)
    assigned_elsewhere: bool = False
    made_by_calls: bool = False

    def keep(self) -> None:
        """Remember the value as it is now."""
        self.original = self.read()
        self.kept = frozen(self.original)

    def now(self) -> object:
        """Return the present value, frozen; ``None`` where there is none any more."""
        try:
            return frozen(self.read())
        except (AttributeError, KeyError, IndexError, ValueError):
            return None

    def changed(self) -> bool:
        """Tell whether the value differs from the one remembered."""
        try:
            now = self.read()
        except (AttributeError, KeyError, IndexError, ValueError):
            return True
        return now is not self.original or not same(self.kept, now)

    def restore(self) -> None:
        """Put the remembered value back, into the same object where it can be changed."""
        if self.changed():
            thaw(self.original, self.kept)
            if self.write is not None:
                # An item whose list was emptied comes back with the list, which is a place of its own.
                with contextlib.suppress(IndexError):
                    self.write(self.original)


def frozen(value: object) -> object:
    """Return what is needed to tell later whether ``value`` changed, and to put it back."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() <= LARGE else None
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= LARGE else None
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value.bit_generator.state)
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, list | set | dict):
        return copy.copy(value)
    return value


def same(kept: object, now: object) -> bool:
    """Compare a remembered value with the present one."""
    if isinstance(now, torch.Tensor | np.ndarray):
        return kept is None or (kept.shape == now.shape and bool(((kept == now) | (kept != kept)).all()))
    if isinstance(now, torch.Generator | np.random.Generator | random.Random):
        before, after = kept, frozen(now)
        return torch.equal(before, after) if isinstance(before, torch.Tensor) else before == after
    if isinstance(now, list):
        return len(kept) == len(now) and all(a is b or _equal(a, b) for a, b in zip(kept, now, strict=True))
    if isinstance(now, dict):
        return kept.keys() == now.keys() and all(kept[k] is now[k] or _equal(kept[k], now[k]) for k in kept)
    return kept is now or _equal(kept, now)


def _equal(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except Exception:
        return a is b


def thaw(value: object, kept: object) -> None:
    """Put remembered content back into a mutable object."""
    if isinstance(value, torch.Tensor) and kept is not None:
        if value.shape == kept.shape and not same(kept, value):
            value.data.copy_(kept)
    elif isinstance(value, np.ndarray) and kept is not None:
        value[...] = kept
    elif isinstance(value, torch.Generator):
        value.set_state(kept)
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = kept
    elif isinstance(value, random.Random):
        value.setstate(kept)
    elif isinstance(value, list):
        value[:] = kept
    elif isinstance(value, dict | set):
        value.clear()
        value.update(kept)


def _is_data(value: object) -> bool:
    """Tell state from code."""
    if isinstance(value, Support | Surrogate | type | types.ModuleType):
        return False
    if isinstance(value, staticmethod | classmethod | property) or inspect.isroutine(value):
        return False
    if isinstance(value, random.SystemRandom):
        return False
    return not callable(value) or isinstance(value, torch.Tensor)


def code_of(function: object) -> types.FunctionType | None:
    """Return the plain function behind a static method, a bound method or a decorator that keeps ``__wrapped__``."""
    function = getattr(function, "__func__", function)
    function = inspect.unwrap(function) if callable(function) else function
    return function if isinstance(function, types.FunctionType) else None


def methods_of(owner: type[Function]) -> dict[str, types.FunctionType]:
    """Return the methods that ``owner`` itself (or a base below ``Function``) defines."""
    found = {}
    for name in METHODS:
        function = code_of(getattr(owner, name, None))
        if function is not None and not str(function.__module__).startswith("torch.autograd"):
            found[name] = function
    return found


def state_slots(
    roots: list[object], module: torch.nn.Module | None = None
) -> dict[tuple[int, object], StateSlot]:
    """Return the state that classes and functions in ``roots``, and ``module``, can reach."""
    found: dict[tuple[int, object], StateSlot] = {}
    visited: set[int] = set()
    for root in roots:
        for key, slot in _of_root(root, visited, DEPTH):
            found.setdefault(key, slot)
    if module is not None:
        for part_name, part in module.named_modules():
            for name, value in vars(part).items():
                if not name.startswith("_") and _is_data(value) and name != "training":
                    label = ".".join(filter(None, ["module", part_name, name]))
                    found.setdefault((id(vars(part)), name), _attribute(part, name, label, "attribute"))
            for name, value in part._buffers.items():
                if value is not None:
                    label = ".".join(filter(None, ["module", part_name, name]))
                    found.setdefault((id(part._buffers), name), _item(part._buffers, name, label, "buffer"))
    for slot in found.values():
        slot.keep()
    return found


Found = Iterator[tuple[tuple[int, object], StateSlot]]


def _of_root(root: object, visited: set[int], depth: int) -> Found:
    if id(root) in visited or depth < 0:
        return
    visited.add(id(root))
    if isinstance(root, type):
        for base in root.__mro__:
            if str(base.__module__).startswith("torch") or base is object:
                continue
            for name, value in list(vars(base).items()):
                if not name.startswith("__") and not name.startswith("_backward_cls") and _is_data(value):
                    yield (
                        (id(base), name),
                        _attribute(base, name, f"{base.__name__}.{name}", "class attribute"),
                    )
                    yield from _inside(value, f"{base.__name__}.{name}", depth - 1)
        if issubclass(root, Function):
            for function in methods_of(root).values():
                yield from _of_root(function, visited, depth)
        return
    function = code_of(root)
    if function is None:
        return
    names = _names(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if _is_data(value):
            slot = _item(function.__globals__, name, name, "global")
            slot.assigned_elsewhere = _assigned(function.__globals__, name)
            yield (id(function.__globals__), name), slot
            yield from _inside(value, name, depth - 1)
        elif getattr(value, "__module__", None) == function.__module__:
            yield from _of_root(value, visited, depth - 1)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if _is_data(value):
            yield (id(cell), ""), _cell(cell, name)
            yield from _inside(value, name, depth - 1)
        elif getattr(value, "__module__", None) == function.__module__:
            yield from _of_root(value, visited, depth - 1)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for value in defaults:
        if isinstance(value, list | dict | set | torch.Tensor | np.ndarray):
            label = f"default argument of {function.__qualname__.split('<locals>.')[-1]}"
            yield (id(value), "default"), StateSlot("default", label, lambda value=value: value, None)


def _inside(value: object, label: str, depth: int) -> Found:
    """Yield what lives inside a container or a plain object."""
    if depth < 0 or isinstance(value, torch.Tensor | np.ndarray | str | bytes):
        return
    if isinstance(value, dict):
        for key in list(value)[:20]:
            if _is_data(value[key]):
                yield (id(value), key), _item(value, key, f"{label}[{key!r}]", "item")
                yield from _inside(value[key], f"{label}[{key!r}]", depth - 1)
    elif isinstance(value, list) and len(value) == 1 and _is_data(value[0]):
        # A list of one is a box for something that changes; a longer one is a table.
        yield (id(value), 0), _item(value, 0, f"{label}[0]", "item")
    elif hasattr(value, "__dict__") and not str(type(value).__module__).startswith(("torch", "numpy")):
        for name, part in list(vars(value).items()):
            if _is_data(part):
                yield (id(value), name), _attribute(value, name, f"{label}.{name}", "attribute")
                yield from _inside(part, f"{label}.{name}", depth - 1)


def _attribute(owner: object, name: str, label: str, kind: str) -> StateSlot:
    return StateSlot(kind, label, lambda: vars(owner)[name], lambda value: setattr(owner, name, value))


def _item(owner: dict | list, key: object, label: str, kind: str) -> StateSlot:
    return StateSlot(kind, label, lambda: owner[key], lambda value: owner.__setitem__(key, value))


def _cell(cell: types.CellType, name: str) -> StateSlot:
    return StateSlot(
        "closure", name, lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value)
    )


def _assigned(module: dict[str, object], name: str) -> bool:
    """Tell whether any function of a module assigns to a global of this name."""
    functions = [value for value in module.values() if isinstance(value, types.FunctionType)]
    return any(
        instruction.opname == "STORE_GLOBAL" and instruction.argval == name
        for function in functions
        if name in function.__code__.co_names
        for instruction in dis.get_instructions(function)
    )


def _names(code: types.CodeType) -> set[str]:
    """Return the global names that code refers to, nested functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
