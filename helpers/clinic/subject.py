"""The Function under examination: how to call it again and again without harm to anyone."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

# ``torch.autograd.grad`` imports this when it first meets grad_outputs: a second that is not the subject's.
import torch.fx.experimental.symbolic_shapes
from torch import Tensor
from torch.autograd import Function
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..functions.contract import Surrogate, declared
from .guard import RandomState, modes, restore_modes
from .state import StateSlot, methods_of, same, state_slots

# Upstream gradients start from an unusual seed: sample inputs drawn after ``manual_seed(0)`` must not equal them.
SEED = 8191


class CannotExamine(Exception):
    """There is nothing to examine: no tensor that a gradient could belong to, or no callable."""


@dataclass
class Slot:
    """One tensor among the inputs.

    ``active`` slots are those whose gradient is examined: the ones that require grad, or every floating
    one when none does.
    """

    name: str
    value: Tensor
    active: bool
    leaf: int | None = None
    parameter: str | None = None


@dataclass
class Call:
    """One call: the leaves that gradients are taken at, what was passed on, and what came out."""

    leaves: dict[int, Tensor]
    arguments: dict[int, Tensor]
    outputs: list[Tensor]
    nodes: list[Function]

    @functools.cached_property
    def differentiable(self) -> list[int]:
        """Positions of the outputs that a gradient can start from."""
        return [number for number, output in enumerate(self.outputs) if output.requires_grad]


@dataclass
class BackwardCall:
    """One call of a custom backward, as seen from outside."""

    owner: type[Function]
    needed: tuple[bool, ...]
    upstream: tuple[Tensor | None, ...]
    returned: tuple[object, ...]


@dataclass
class Subject:
    """A callable with its sample inputs."""

    fn: Callable[..., object]
    call: Callable[..., object]
    label: str
    owner: type[Function] | None
    module: torch.nn.Module | None
    leaves: list[object]
    structure: object
    slots: list[Slot]
    legacy_instance: bool = False
    upcasted: bool = False
    classes: list[type[Function]] = field(default_factory=list)
    rng: RandomState = field(default_factory=RandomState)
    state_by_key: dict[tuple[int, object], StateSlot] = field(default_factory=dict)
    mutated: list[StateSlot] = field(default_factory=list)
    seconds: float = 0.0
    modes_changed: set[str] = field(default_factory=set)

    @property
    def active(self) -> list[int]:
        """Numbers of the slots whose gradient is examined."""
        return [number for number, slot in enumerate(self.slots) if slot.active]

    @property
    def values(self) -> list[Tensor]:
        """The sample inputs."""
        return [slot.value for slot in self.slots]

    @property
    def surrogate(self) -> bool:
        """Whether any Function met on the way declares that its backward departs from the derivative."""
        return any(declared(owner, Surrogate) for owner in [self.fn, *self.classes])

    def description(self) -> str:
        """Return the callable with dtypes and shapes of its inputs."""
        told = [_described(slot) for slot in self.slots if slot.parameter is None]
        return f"{self.label}({', '.join(told)})"

    def run(
        self,
        values: Sequence[Tensor] | None = None,
        *,
        active: Sequence[int] | None = None,
        fresh: bool = True,
        arrange: Callable[[int, Tensor], Tensor] | None = None,
        settings: Callable[[object], object] | None = None,
    ) -> Call:
        """Call the Function on copies of ``values``.

        Args:
            values: one tensor per slot; the sample inputs by default.
            active: the slots that require grad.
            fresh: first put back random state and whatever state earlier calls changed.
            arrange: makes the argument from a leaf, to try other memory layouts; a copy by default.
            settings: makes another value from each argument that is no tensor.
        """
        values = self.values if values is None else values
        active = self.active if active is None else active
        if fresh:
            self.refresh()
        leaves, arguments = {}, {}
        for number, value in enumerate(values):
            leaf = value.detach().clone()
            if number in active:
                leaves[number] = leaf.requires_grad_()
            # A copy, not the leaf: Functions that work in place are allowed to on anything but a leaf.
            arguments[number] = arrange(number, leaf) if arrange else leaf.clone()
        before = modes()
        try:
            result = self._call(arguments, settings)
        finally:
            self.modes_changed.update(restore_modes(before))
        outputs = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, Tensor)]
        call = Call(leaves, arguments, outputs, custom_nodes(outputs))
        for node in call.nodes:
            owner = type(node)._forward_cls
            if owner not in self.classes:
                self.classes.append(owner)
        return call

    def _call(self, arguments: dict[int, Tensor], settings: Callable[[object], object] | None) -> object:
        leaves, parameters = list(self.leaves), {}
        if settings is not None:
            leaves = list(map(settings, leaves))
        for number, slot in enumerate(self.slots):
            if slot.parameter is None:
                leaves[slot.leaf] = arguments[number]
            else:
                parameters[slot.parameter] = arguments[number]
        passed = tree_unflatten(leaves, self.structure)
        if parameters:
            return torch.func.functional_call(self.module, parameters, tuple(passed))
        return self.call(*passed)

    def refresh(self) -> None:
        """Put random state, and state that calls are known to change, back to the beginning."""
        self.rng.restore()
        for slot in self.mutated:
            slot.restore()

    def look_for_state(self) -> None:
        """Find the state that the Function can reach; what was found before keeps the value it had then."""
        roots: list[object] = [*self.classes]
        if self.module is not None:
            roots.append(type(self.module).forward)
        elif self.owner is None:
            roots.append(self.fn)
        again = bool(self.state_by_key)
        for key, slot in state_slots(roots, self.module).items():
            if key not in self.state_by_key:
                slot.made_by_calls = again and slot.kind == "item"
                self.state_by_key[key] = slot

    @property
    def state(self) -> list[StateSlot]:
        """The state found so far."""
        return list(self.state_by_key.values())

    def notice_changes(self) -> list[StateSlot]:
        """Return the state that calls so far have changed, and reset it before each call from now on."""
        self.mutated = [slot for slot in self.state if slot.changed()]
        return self.mutated

    def outside(self) -> dict[str, object]:
        """Return what the reachable state holds now."""
        return {slot.name: slot.now() for slot in self.state}

    def changed_outside(self, before: dict[str, object]) -> bool:
        """Tell whether the reachable state has changed since ``before``."""
        return any(not same(before.get(slot.name), slot.now()) for slot in self.state)

    def upstream(self, call: Call, seed: int = 0) -> dict[int, Tensor]:
        """Return a random upstream gradient for each differentiable output."""
        return {
            number: noise_like(call.outputs[number], SEED + seed + number) for number in call.differentiable
        }

    def gradients(
        self,
        call: Call,
        upstream: dict[int, Tensor],
        *,
        create_graph: bool = False,
        retain_graph: bool = False,
    ) -> dict[int, Tensor | None]:
        """Return the gradient at each leaf; ``None`` where there is none."""
        numbers = list(upstream)
        before = modes()
        try:
            found = torch.autograd.grad(
                [call.outputs[number] for number in numbers],
                list(call.leaves.values()),
                [upstream[number] for number in numbers],
                allow_unused=True,
                create_graph=create_graph,
                retain_graph=retain_graph or create_graph,
            )
        finally:
            self.modes_changed.update(restore_modes(before))
        return dict(zip(call.leaves, map(plain, found), strict=True))

    def vjp(
        self,
        values: Sequence[Tensor] | None = None,
        upstream: dict[int, Tensor] | None = None,
        *,
        seed: int = 0,
        **options: object,
    ) -> dict[int, Tensor | None]:
        """Return the gradients of one fresh call."""
        call = self.run(values, **options)
        if not call.differentiable:
            return dict.fromkeys(call.leaves)
        upstream = self.upstream(call, seed) if upstream is None else upstream
        # Copies, for backwards that write into what they get.
        return self.gradients(call, {number: v.clone() for number, v in upstream.items()})

    @contextlib.contextmanager
    def spying(self) -> Iterator[list[BackwardCall]]:
        """Record what custom backwards return, before the engine casts, sums or drops it."""
        records: list[BackwardCall] = []
        undo = []
        for owner in self.classes:
            name = "vjp" if owner.vjp is not Function.vjp else "backward"
            own = owner.__dict__.get(name)
            setattr(owner, name, staticmethod(_spy(owner, getattr(owner, name), records)))
            undo.append((owner, name, own))
        try:
            yield records
        finally:
            for owner, name, own in undo:
                if own is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, own)

    def where(self, method: str = "backward") -> str:
        """Return the method with file and line, for a reader to go to."""
        for owner in [*([self.owner] if self.owner else []), *self.classes]:
            function = methods_of(owner).get(method)
            if function is not None:
                return place_of(function, f"{owner.__name__}.{method}")
        return place_of(self.module.forward if self.module is not None else self.fn, self.label)


def _spy(owner: type[Function], backward: Callable, records: list[BackwardCall]) -> Callable:
    def spied(ctx, *upstream):
        returned = backward(ctx, *upstream)
        as_tuple = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
        records.append(BackwardCall(owner, tuple(ctx.needs_input_grad), upstream, as_tuple))
        return returned

    return spied


def place_of(function: object, name: str) -> str:
    """Return ``name`` with file and line; without them for code typed into a notebook."""
    function = inspect.unwrap(function) if callable(function) else function
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if (
        not isinstance(code, types.CodeType)
        or code.co_filename.startswith("<")
        or "ipykernel" in code.co_filename
    ):
        return name
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def noise_like(tensor: Tensor, seed: int) -> Tensor:
    """Return normal noise of a tensor's shape and dtype that depends on ``seed`` alone."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return torch.randn(tensor.shape, generator=generator, dtype=wide).to(tensor.dtype).to(tensor.device)


def plain(tensor: Tensor | None) -> Tensor | None:
    """Return a dense tensor for a sparse one."""
    return tensor.to_dense() if tensor is not None and tensor.layout != torch.strided else tensor


def custom_nodes(outputs: Sequence[Tensor]) -> list[Function]:
    """Return the nodes of custom Functions in the graph behind ``outputs``, outputs first."""
    found, seen = [], set()
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    while waiting and len(seen) < 100_000:
        node = waiting.pop(0)
        if node in seen:
            continue
        seen.add(node)
        if hasattr(type(node), "_forward_cls"):
            found.append(node)
        waiting.extend(parent for parent, _ in node.next_functions if parent is not None)
    return found


def _described(slot: Slot) -> str:
    return f"{slot.name}: {str(slot.value.dtype).removeprefix('torch.')}{list(slot.value.shape)}"


def wrap(fn: object, inputs: Sequence[object]) -> Subject:
    """Make a subject of whatever was given.

    Raises:
        CannotExamine: ``fn`` is not callable, or no input is a floating or complex tensor.
    """
    owner, module, call, legacy = None, None, fn, False
    target = fn
    while isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type) and issubclass(target, Function):
        owner, call = target, target.apply
    elif isinstance(target, Function):
        owner, call, legacy = type(target), type(target).apply, True
    elif isinstance(getattr(target, "__self__", None), type) and issubclass(target.__self__, Function):
        owner = target.__self__
    elif isinstance(target, torch.nn.Module):
        module = target
    if not callable(call):
        raise CannotExamine(f"fn must be callable; got {type(fn).__name__}")
    leaves, structure = tree_flatten(tuple(inputs))
    names = _names(owner, target, inputs, leaves)
    slots = [
        Slot(names[number], leaf.detach().clone(), leaf.requires_grad, leaf=number)
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor)
    ]
    if module is not None:
        slots += [
            Slot(name, value.detach().clone(), value.requires_grad, parameter=name)
            for name, value in module.named_parameters()
        ]
    floating = [slot for slot in slots if slot.value.is_floating_point() or slot.value.is_complex()]
    floating = [slot for slot in floating if slot.value.layout == torch.strided]
    for slot in slots:
        slot.active = slot.active and slot in floating
    if not any(slot.active for slot in slots if slot.parameter is None):
        for slot in floating:
            slot.active = slot.active or slot.parameter is None
    if not any(slot.active for slot in slots):
        raise CannotExamine(
            "none of the inputs is a floating or complex tensor, so there is no gradient to examine"
        )
    label = f"{owner.__name__}.apply" if owner else getattr(target, "__name__", type(target).__name__)
    subject = Subject(fn, call, label, owner, module, leaves, structure, slots, legacy)
    subject.classes = [owner] if owner else []
    return subject


def _names(owner: type | None, target: object, inputs: Sequence[object], leaves: list[object]) -> list[str]:
    """Name each leaf of the inputs after the parameter that receives it."""
    function = owner.forward if owner else target.forward if isinstance(target, torch.nn.Module) else target
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if owner is not None and owner.setup_context is Function.setup_context:
        parameters = parameters[1:]
    names = []
    for number, value in enumerate(inputs):
        known = number < len(parameters) and parameters[number].kind.name.startswith("POSITIONAL")
        name = parameters[number].name if known else f"input {number}"
        count = len(tree_flatten(value)[0])
        names += [name] if count == 1 else [f"{name}[{part}]" for part in range(count)]
    return names if len(names) == len(leaves) else [f"input {number}" for number in range(len(leaves))]


def upcast(subject: Subject) -> bool:
    """Work in double precision when the Function can; tell whether anything had to be raised to it."""
    wider = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}
    wider |= {torch.complex64: torch.complex128}
    if not any(slot.value.dtype in wider for slot in subject.slots):
        return False
    natural = [slot.value for slot in subject.slots]
    for slot in subject.slots:
        if slot.value.dtype in wider:
            slot.value = slot.value.to(wider[slot.value.dtype])
    try:
        with subject.spying() as records:
            call = subject.run()
            subject.gradients(call, subject.upstream(call))
        returned = [item for record in records for item in record.returned if isinstance(item, Tensor)]
        fine = all(tensor.dtype not in wider for tensor in [*call.outputs, *returned])
        fine = fine and not any(single_inside(subject, call))
    except Exception:
        fine = False
    if fine:
        subject.upcasted = True
    else:
        for slot, value in zip(subject.slots, natural, strict=True):
            slot.value = value
    return True


def single_inside(subject: Subject, call: Call) -> list[bool]:
    """Tell for each output whether it carries no more digits than float32, though it is float64 and moves.

    The inputs are moved by random numbers with all their digits, so that constants and round numbers are not
    taken for float32.
    """
    shifted = []
    for number, value in enumerate(subject.values):
        noise = torch.rand(value.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        shifted.append(value * (1 + 1e-3 * noise.to(value.dtype)) if number in subject.active else value)
    try:
        with torch.no_grad():
            outputs = subject.run(shifted, active=[]).outputs
    except Exception:
        return []
    found = []
    for before, after in zip(call.outputs, outputs, strict=False):
        usable = after.dtype == torch.float64 and after.numel() > 0 and after.shape == before.shape
        found.append(
            usable
            and bool((after.float().double() == after).all())
            and int((after.to(torch.bfloat16).double() != after).sum()) > after.numel() // 2
            and bool((after != before.detach()).any())
        )
    return found


def timed(subject: Subject) -> float:
    """Measure a fresh call, in seconds: the best of a few, for the first ones load libraries and share the processor."""
    best, spent = math.inf, 0.0
    for _ in range(6):
        started = time.perf_counter()
        subject.run()
        took = time.perf_counter() - started
        best, spent = min(best, took), spent + took
        if spent > 0.1:
            break
    return best
