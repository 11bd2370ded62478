"""Watching a function run: what autograd's nodes were given, without a word in the function itself.

Below autograd, a ``TorchDispatchMode`` sees every operator with the tensors it was called with; each still says which
node made it (``grad_fn``, ``output_nr``), so its value is the value on that edge. Copies are taken at once, because a
later in-place operator may overwrite it. Calls of ``autograd.Function`` pass through one place, where they are seen
under whatever name they were called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SHORT = 24  # characters of an argument worth showing


@dataclass
class Call:
    """What one node was called with: constants and other arguments, and tensors it gave that have no gradient."""

    constants: list[tuple[int, int]] = field(default_factory=list)
    arguments: tuple[str, ...] = ()
    others: list[Tensor] = field(default_factory=list)


@dataclass
class Constant:
    """A tensor that took part without a gradient, as it was then."""

    tensor: Tensor
    value: Tensor
    origin: str


class Watch:
    """Everything seen while a function ran.

    Args:
        custom: keep each ``autograd.Function`` as one node; ``False`` runs its forward as ordinary code, so that
            autograd applies the chain rule inside.

    Attributes:
        values: the forward value of (node, output).
        leaves: by identity, each leaf and its value when it was first used.
        calls: what a node was called with.
        constants: by identity and version.
        inside: ranges of sequence numbers, from and to, of nodes made inside the forward of a Function.
        required: a tensor that requires a gradient was used.
        unrecorded: such a tensor was used by an operator while grad mode was off, outside any Function.
        cuts: ways out of the graph that were taken: ``"detach"``, ``"numpy"``.
    """

    def __init__(self, custom: bool = True) -> None:
        self.custom = custom
        self.values: dict[tuple[Node, int], Tensor] = {}
        self.leaves: dict[int, tuple[Tensor, Tensor]] = {}
        self.calls: dict[Node, Call] = {}
        self.constants: dict[tuple[int, int], Constant] = {}
        self.inside: list[tuple[int, int, str]] = []
        self.required = self.unrecorded = False
        self.cuts: list[str] = []
        self._origins: dict[int, tuple[Tensor, str]] = {}
        self._waiting: tuple[Call, list[Tensor], bool] | None = None
        self._depth = 0  # of Functions whose forward is running
        self._busy = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs in this block."""
        kept = _SingleLevelFunction.__dict__.get("apply")
        _SingleLevelFunction.apply = classmethod(self._apply if self.custom else self._run_plainly)
        try:
            with _Calls(self), _Operators(self):
                yield
        finally:
            if kept is None:
                del _SingleLevelFunction.apply
            else:
                _SingleLevelFunction.apply = kept
            self.settle()

    def see(self, tensor: Tensor) -> None:
        """Keep the value of a tensor of the graph, unless its edge is known already."""
        self.required = True
        if tensor.grad_fn is None:
            if id(tensor) not in self.leaves:
                self.leaves[id(tensor)] = (tensor, self.copy(tensor))
        elif (tensor.grad_fn, tensor.output_nr) not in self.values:
            self.values[tensor.grad_fn, tensor.output_nr] = self.copy(tensor)

    def copy(self, tensor: Tensor) -> Tensor:
        """A tensor as it is now."""
        busy, self._busy = self._busy, True
        try:
            with torch.no_grad():
                return tensor.detach().clone()
        finally:
            self._busy = busy

    def settle(self) -> None:
        """Autograd attaches its node once an operator has returned; note it for the last one."""
        if self._waiting is None:
            return
        call, outputs, in_place = self._waiting
        self._waiting = None
        for output in outputs:
            whole = output._base if in_place and output._is_view() else output
            if whole is not None and whole.grad_fn is not None:
                self.calls.setdefault(whole.grad_fn, call)
        call.others = [output for output in outputs if not output.requires_grad]

    def _given(self, arguments: list[Any]) -> list[tuple[int, int]]:
        """See the tensors among the arguments of a call; returns the keys of those without a gradient."""
        keys = []
        for each in arguments:
            if isinstance(each, Tensor) and each.requires_grad:
                self.see(each)
            elif isinstance(each, Tensor):
                key = (id(each), each._version)
                if key not in self.constants:
                    origin = self._origins.get(id(each), (each, ""))[1]
                    self.constants[key] = Constant(each, self.copy(each), origin)
                keys.append(key)
        return keys

    def operator(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """One operator, as the dispatcher sees it."""
        if self._busy:
            return func(*args, **kwargs)
        self.settle()
        flat = tree_leaves((args, kwargs))
        keys = self._given(flat)
        if self._depth == 0 and not torch.is_grad_enabled():
            self.unrecorded |= any(isinstance(each, Tensor) and each.requires_grad for each in flat)
        result = func(*args, **kwargs)
        outputs = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        name = func._schema.name.split("::")[-1]
        for output in outputs:
            self._origins.setdefault(id(output), (output, name.strip("_")))
        if self._depth == 0 and torch.is_grad_enabled():
            call = Call(keys, _arguments(func, args, kwargs))
            self._waiting = (call, outputs, name.endswith("_"))
        return result

    def _apply(self, cls: type, *args: Any, **kwargs: Any) -> Any:
        self.settle()
        keys = self._given(tree_leaves((args, kwargs)))
        self._depth += 1
        try:
            result = super(_SingleLevelFunction, cls).apply(*args, **kwargs)
        finally:
            self._depth -= 1
        outputs = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        others = tuple(_short(each) for each in args if isinstance(each, (int, float, str)))
        call = Call(keys, others, [each for each in outputs if not each.requires_grad])
        for output in outputs:
            if output.grad_fn is not None:
                self.calls.setdefault(output.grad_fn, call)
                self.see(output)
        return result

    def _run_plainly(self, cls: type, *args: Any, **kwargs: Any) -> Any:
        first = torch._C._autograd._get_sequence_nr()
        context = _PlainContext(args)
        separate = cls.setup_context is not _SingleLevelFunction.setup_context
        try:
            result = cls.forward(*args, **kwargs) if separate else cls.forward(context, *args, **kwargs)
        except RuntimeError as error:
            raise ValueError(
                f"the forward of {cls.__name__} cannot run as ordinary code under autograd, so there is no default "
                f"rule to derive from it ({error}). Give a version made of PyTorch's operators (against=)."
            ) from error
        self.inside.append((first, torch._C._autograd._get_sequence_nr(), cls.__name__))
        flat = result if isinstance(result, tuple) else (result,)
        flat = tuple(each.detach() if any(each is cut for cut in context.cut) else each for each in flat)
        return flat if isinstance(result, tuple) else flat[0]


class _Operators(TorchDispatchMode):
    """Below autograd: every operator, also those inside composite ones."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Guarding this mode against the compiler would import the compiler, which takes two seconds."""
        return False

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.watch.operator(func, args, kwargs or {})


class _Calls(TorchFunctionMode):
    """Above autograd: results nobody may use later, and ways out of the graph."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if args and isinstance(args[0], Tensor):
            name = getattr(func, "__name__", "")
            if name in ("numpy", "__array__", "item", "tolist"):
                self.watch.cuts.append("numpy")
            elif name in ("detach", "detach_") or func == Tensor.data.__get__:
                self.watch.cuts.append("detach")
        for each in tree_leaves(result):
            if isinstance(each, Tensor) and each.grad_fn is not None:
                self.watch.see(each)
        return result


class _PlainContext:
    """A ctx for a forward that runs as ordinary code: it takes everything and keeps what must not be differentiated."""

    def __init__(self, args: tuple) -> None:
        self.needs_input_grad = tuple(isinstance(each, Tensor) and each.requires_grad for each in args)
        self.cut: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Nothing to keep: autograd saves what its own rule needs."""

    save_for_forward = mark_dirty = set_materialize_grads = save_for_backward

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These outputs are cut from the graph."""
        self.cut = tensors


def _arguments(func: Any, args: tuple, kwargs: dict) -> tuple[str, ...]:
    """What an operator was given besides tensors, where it differs from the default."""
    shown = []
    declared = func._schema.arguments
    pairs = [
        *zip(declared, args, strict=False),
        *((each, kwargs.get(each.name)) for each in declared[len(args) :]),
    ]
    for argument, value in pairs:
        if value is None or value == [] or not isinstance(value, (int, float, list, tuple)):
            continue
        if any(isinstance(each, Tensor) for each in tree_leaves(value)):
            continue
        if argument.has_default_value() and argument.default_value == value:
            continue
        name = "" if argument.name in ("other", "self") else f"{argument.name}="
        shown.append(name + _short(value))
    return tuple(shown)


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"
