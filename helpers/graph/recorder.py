"""Recording a graph: run a function, run its backward, and write down what autograd did."""

from __future__ import annotations

import contextlib
import inspect
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node as AutogradNode
from torch.autograd.graph import get_gradient_edge
from torch.utils._pytree import tree_leaves, tree_map_only

from ..functions.contract import Surrogate, declared
from .recording import Edge, Event, Node, Recording, Saved
from .watch import Watch

LIMIT = 60


def record(
    fn: Callable,
    *inputs: Any,
    names: Sequence[str] | None = None,
    grad_outputs: Sequence[Tensor] | None = None,
    custom: bool = True,
    limit: int = LIMIT,
) -> Recording:
    """Run ``fn`` forward and backward and return the graph that autograd built, with its numbers.

    Values and gradients come from autograd itself: values from the tensors its nodes were called with, gradients and
    their order from hooks on the nodes. ``.grad`` of every tensor, grad mode, the random state, and the values of
    the inputs and of a module's parameters and buffers are afterwards as they were.

    Args:
        fn: any function of tensors, a module, or the ``apply`` of an ``autograd.Function``. It returns tensors.
        inputs: its arguments, tensors or not. A tensor that is not a leaf stands in as one, cut from its past.
        names: of the inputs, one each; by default those of ``fn``'s parameters. Parameters of modules and tensors
            that ``fn`` takes from around it have the names they have there.
        grad_outputs: the upstream gradient of each differentiable output; by default ones, so 1 for a loss.
        custom: ``False`` runs the forward of every ``autograd.Function`` as ordinary code, so that the recording
            shows the default chain rule in its place.
        limit: the largest graph to record, in nodes.

    Raises:
        TypeError: ``fn`` is not callable, or returns no tensor.
        ValueError: no output has a graph (the message says why), the graph is larger than ``limit``, or ``names`` or
            ``grad_outputs`` do not fit.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> print(record(lambda x: x ** 3, x).describe())
    1. Forward: x is given, 2. It is a leaf: its gradient is collected here.
    2. Forward: pow(x, exponent=3) gives 8.
    3. Forward: output is 8.
    4. Backward: the gradient of output starts as 1.
    5. Backward: pow receives 1 and sends 12 to x (local derivative 12).
    6. Backward: x collects 12.
    """
    if not callable(fn):
        raise TypeError(f"fn must be callable; got {type(fn).__name__}.")
    called = _argument_names(fn, inputs, names)
    watch = Watch(custom)
    with as_before(fn, inputs), torch.inference_mode(False), torch.enable_grad():
        given = tree_map_only(Tensor, stand_in, inputs)
        with watch.watching():
            result = fn(*given)
        outputs = _named_outputs(result)
        known = _known_names(fn, given, called)
        graph = _Graph(watch, outputs, known, limit)
        graph.run_backward(grad_outputs)
    return graph.recording()


class _Graph:
    """The graph behind some outputs, while it is alive."""

    def __init__(
        self, watch: Watch, outputs: list[tuple[str, Tensor]], known: dict[int, str], limit: int
    ) -> None:
        self.watch, self.outputs, self.known = watch, outputs, known
        self.roots = [get_gradient_edge(each) if each.requires_grad else None for _, each in outputs]
        if not any(self.roots):
            raise ValueError(_why_no_graph(watch, [each for _, each in outputs]))
        for root, (_, tensor) in zip(self.roots, outputs, strict=True):
            if root is not None:
                watch.values.setdefault((root.node, root.output_nr), watch.copy(tensor))
        self.order = _in_order([root.node for root in self.roots if root is not None])
        if len(self.order) > limit:
            raise ValueError(
                f"the graph has {len(self.order)} nodes; at most {limit} can be recorded. Record a part of the "
                "function, or a smaller one of its kind (limit= raises the bound)."
            )
        self.saved = {node: _saved(node) for node in self.order}
        self.arrived: dict[AutogradNode, tuple] = {}
        self.sent: dict[AutogradNode, tuple] = {}
        self.events: list[AutogradNode] = []
        self.seeds: list[Tensor] = []

    def run_backward(self, grad_outputs: Sequence[Tensor] | None) -> None:
        """Run the real backward, with a hook on every node."""
        ends = [
            tensor for root, (_, tensor) in zip(self.roots, self.outputs, strict=True) if root is not None
        ]
        self.seeds = _seeds(ends, grad_outputs)
        leaves = [node for node in self.order if hasattr(node, "variable")]
        running: list[AutogradNode] = []
        handles = []
        for node in self.order:
            if hasattr(node, "variable"):
                handles.append(node.variable.register_hook(lambda _, node=node: self.events.append(node)))
            else:
                handles.append(
                    node.register_prehook(lambda given, node=node: self._arrive(node, given, running))
                )
                handles.append(
                    node.register_hook(lambda sent, given, node=node: self._send(node, sent, running))
                )
        try:
            gradients = torch.autograd.grad(
                ends, [node.variable for node in leaves], self.seeds, retain_graph=True, allow_unused=True
            )
        except Exception as error:
            if running:
                error.add_note(f"This was raised in the backward of {running[-1].name()}.")
            raise
        finally:
            for handle in handles:
                handle.remove()
        for node, gradient in zip(leaves, gradients, strict=True):
            self.arrived[node] = (_keep(gradient),)

    def _arrive(self, node: AutogradNode, given: tuple, running: list) -> None:
        self.arrived[node] = tuple(map(_keep, given))
        self.events.append(node)
        running.append(node)

    def _send(self, node: AutogradNode, sent: tuple, running: list) -> None:
        self.sent[node] = tuple(map(_keep, sent))
        running.remove(node)

    def recording(self) -> Recording:
        """What was seen, as plain data that keeps nothing of the graph alive."""
        made = _Builder(self)
        return Recording(made.nodes, made.edges, made.events, tuple(map(_keep, self.seeds)))


class _Builder:
    """Turns a graph that has run into nodes, edges and events."""

    def __init__(self, graph: _Graph) -> None:
        self.graph, self.watch = graph, graph.watch
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._taken: dict[str, int] = {}
        self._of: dict[AutogradNode, Node] = {}
        self._of_constant: dict[tuple[int, int], Node] = {}
        inner = [node for node in graph.order if not hasattr(node, "variable")]
        self._count = {node: self._outputs_of(node) for node in graph.order}
        for node in inner:
            self._add_operator(node)
        seeds = iter(graph.seeds)
        ends = []
        for (name, tensor), root in zip(graph.outputs, graph.roots, strict=True):
            ends.append(self._add_output(name, tensor, root, next(seeds) if root is not None else None))
        self.events = [Event("forward", node.id) for node in self.nodes]
        self.events += [Event("backward", end.id) for end in ends if end.upstream]
        self.events += [Event("backward", self._of[node].id) for node in graph.events]

    def _outputs_of(self, node: AutogradNode) -> int:
        used = [number for each, number in self.watch.values if each is node]
        return max([len(self.graph.arrived.get(node, ())), *(number + 1 for number in used), 1])

    def _values(self, node: AutogradNode) -> tuple[Tensor | None, ...]:
        return tuple(self.watch.values.get((node, number)) for number in range(self._count[node]))

    def _upstream(self, node: AutogradNode) -> tuple[Tensor | None, ...]:
        arrived = self.graph.arrived.get(node, ())
        return tuple(arrived) + (None,) * (self._count[node] - len(arrived))

    def _add(self, kind: str, name: str, **properties: Any) -> Node:
        count = self._taken[name] = self._taken.get(name, 0) + 1
        unique = name if count == 1 else name + "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(count))
        node = Node(len(self.nodes), kind, unique, **properties)
        self.nodes.append(node)
        return node

    def _source(self, node: AutogradNode) -> Node:
        if node not in self._of:  # a leaf, met for the first time
            leaf = node.variable
            seen = self.watch.leaves.get(id(leaf))
            self._of[node] = self._add(
                "leaf",
                self.graph.known.get(id(leaf), "leaf"),
                operator=node.name(),
                values=(seen[1] if seen else _keep(leaf),),
                upstream=self._upstream(node),
                tensor=leaf,
            )
        return self._of[node]

    def _add_operator(self, node: AutogradNode) -> None:
        sources = [
            (self._source(each), number, place)
            for place, (each, number) in enumerate(node.next_functions)
            if each is not None
        ]
        call = self.watch.calls.get(node)
        constants = [self._constant(key) for key in call.constants] if call else []
        cls = getattr(type(node), "_forward_cls", None) if isinstance(node, BackwardCFunction) else None
        surrogate = declared(cls, Surrogate) if cls else None
        made = self._of[node] = self._add(
            "custom" if cls else "operator",
            _short_name(node.name(), cls),
            operator=node.name(),
            arguments=call.arguments if call else (),
            values=self._values(node),
            upstream=self._upstream(node),
            saved=self.graph.saved[node],
            function=cls,
            rule=surrogate.rule if surrogate else "",
            inside=self._inside(node),
        )
        sent = self.graph.sent.get(node, ())
        for source, number, place in sources:
            gradient = sent[place] if place < len(sent) else None
            self._connect(source, number, made, place, gradient, True)
        for place, constant in enumerate(dict.fromkeys(map(id, constants)), len(node.next_functions)):
            self._connect(
                next(each for each in constants if id(each) == constant), 0, made, place, None, False
            )

    def _constant(self, key: tuple[int, int]) -> Node:
        if key not in self._of_constant:
            seen = self.watch.constants[key]
            name = self.graph.known.get(id(seen.tensor)) or seen.origin or "constant"
            self._of_constant[key] = self._add("constant", name, values=(seen.value,))
        return self._of_constant[key]

    def _add_output(self, name: str, tensor: Tensor, root: Any, seed: Tensor | None) -> Node:
        source = self._source(root.node) if root is not None else self._origin(tensor)
        upstream = (_keep(seed),) if seed is not None else ()
        made = self._add("output", name, values=(_keep(tensor),), upstream=upstream)
        if source is not None:
            number = root.output_nr if root is not None else 0
            self._connect(source, number, made, 0, _keep(seed), root is not None)
        return made

    def _origin(self, tensor: Tensor) -> Node | None:
        """The node that gave an output without a gradient, such as the indices of ``max``."""
        for node, call in self.watch.calls.items():
            if node in self._of and any(each is tensor for each in call.others):
                return self._of[node]
        return next(
            (
                self._of_constant[key]
                for key in self._of_constant
                if self.watch.constants[key].tensor is tensor
            ),
            None,
        )

    def _connect(
        self,
        source: Node,
        number: int,
        target: Node,
        place: int,
        gradient: Tensor | None,
        differentiable: bool,
    ) -> None:
        value = source.values[number] if differentiable or source.kind == "constant" else target.value
        local = None
        ones = [*target.upstream, gradient, value]
        if (
            differentiable
            and target.kind != "output"
            and len(target.upstream) == 1
            and all(each is not None and each.layout == torch.strided and each.numel() == 1 for each in ones)
        ):
            upstream = target.upstream[0].item()
            local = gradient.item() / upstream if upstream else None
        self.edges.append(
            Edge(source.id, number, target.id, place, value, target.upstream, gradient, differentiable, local)
        )

    def _inside(self, node: AutogradNode) -> str:
        number = node._sequence_nr()
        return next((name for first, last, name in self.watch.inside if first <= number < last), "")


def _in_order(roots: Iterable[AutogradNode]) -> list[AutogradNode]:
    """The nodes behind ``roots``: those that ran in the order in which they were made, and before them the leaves."""
    graph = nx.DiGraph()
    waiting = list(roots)
    graph.add_nodes_from(waiting)
    done: set[AutogradNode] = set()
    while waiting:
        node = waiting.pop()
        if node in done:
            continue
        done.add(node)
        for source, _ in node.next_functions:
            if source is not None:
                graph.add_edge(source, node)
                waiting.append(source)
    leaves = [node for node in graph if hasattr(node, "variable")]
    graph.remove_nodes_from(leaves)
    return leaves + list(nx.lexicographical_topological_sort(graph, key=lambda node: node._sequence_nr()))


def _saved(node: AutogradNode) -> tuple[Saved, ...]:
    """What a node keeps: saved tensors, and for a custom node also tensors on ctx."""
    found: list[tuple[str, Any]] = []
    if isinstance(node, BackwardCFunction):
        with contextlib.suppress(RuntimeError):  # changed in place since, or freed
            found += [(f"saved_tensors[{place}]", each) for place, each in enumerate(node.saved_tensors)]
        found += [(f"ctx.{name}", each) for name, each in vars(node).items()]
    else:
        for name in dir(node):
            if name.startswith("_saved_"):
                with contextlib.suppress(RuntimeError):
                    found.append((name.removeprefix("_saved_"), getattr(node, name)))
    return tuple(
        Saved(name, tuple(each.shape), each.dtype, each.numel() * each.element_size())
        for name, group in found
        for each in (group if isinstance(group, (tuple, list)) else [group])
        if isinstance(each, Tensor)
    )


def _seeds(ends: list[Tensor], grad_outputs: Sequence[Tensor] | None) -> list[Tensor]:
    if grad_outputs is None:
        return [torch.ones_like(each) for each in ends]
    if isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs]
    shapes = [tuple(each.shape) for each in ends]
    given = [tuple(each.shape) for each in grad_outputs]
    if given != shapes:
        raise ValueError(f"grad_outputs have the shapes {given}; the differentiable outputs have {shapes}.")
    return [each.detach() for each in grad_outputs]


def _why_no_graph(watch: Watch, outputs: list[Tensor]) -> str:
    start = "the result has no graph, so there is nothing to record: "
    if not any(each.is_floating_point() or each.is_complex() for each in outputs):
        dtypes = ", ".join(sorted({str(each.dtype).removeprefix("torch.") for each in outputs}))
        return start + f"every output is of an integer or boolean dtype ({dtypes}), which has no gradient."
    if not watch.required:
        return start + (
            "no tensor that took part requires a gradient. Call x.requires_grad_() on an input, or make it with "
            "requires_grad=True."
        )
    if "numpy" in watch.cuts:
        return start + (
            "the values left PyTorch for NumPy or Python numbers (numpy(), item(), tolist()), and autograd cannot "
            "follow them there. Use PyTorch's operators, or wrap the passage in an autograd.Function."
        )
    if "detach" in watch.cuts:
        return (
            start
            + "it was detached (.detach() or .data) on the way. Remove that call, or differentiate before it."
        )
    if watch.unrecorded:
        return start + "it was computed under torch.no_grad(). Remove that block."
    return start + "no output depends on a tensor that requires a gradient."


def _named_outputs(result: Any) -> list[tuple[str, Tensor]]:
    if isinstance(result, dict):
        named = [(str(name), each) for name, group in result.items() for each in tree_leaves(group)]
    else:
        named = [("output", each) for each in tree_leaves(result)]
    tensors = [(name, each) for name, each in named if isinstance(each, Tensor)]
    if not tensors:
        raise TypeError(
            f"fn returned {type(result).__name__} without a tensor in it; it must return at least one."
        )
    return tensors


def _argument_names(fn: Callable, inputs: tuple, names: Sequence[str] | None) -> list[str]:
    """One name per input: those given, those of the parameters of ``fn``, or x, y, z."""
    if names is not None:
        if isinstance(names, str) or len(names) != len(inputs):
            raise ValueError(f"names must hold one name per input; got {names!r} for {len(inputs)} inputs.")
        return list(names)
    owner = getattr(fn, "__self__", None)
    if isinstance(fn, torch.nn.Module):
        fn = fn.forward
    combined = False
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        fn, combined = owner.forward, owner.setup_context is torch.autograd.Function.setup_context
    try:
        parameters = list(inspect.signature(fn).parameters.values())[combined:]
    except (TypeError, ValueError):
        parameters = []
    plain = [
        each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    spare = (
        ["x", "y", "z"]
        if not parameters
        else [each.name for each in parameters if each.kind == each.VAR_POSITIONAL]
    )
    rest = len(inputs) - len(plain)
    return (plain + (spare if len(spare) >= rest else (spare or ["input"]) * rest))[: len(inputs)]


def _known_names(fn: Callable, given: tuple, called: list[str]) -> dict[int, str]:
    """Names of tensors by identity: inputs, parameters and buffers, and what ``fn`` takes from around it."""
    known: dict[int, str] = {}

    def learn(name: str, thing: Any) -> None:
        if isinstance(thing, Tensor):
            known.setdefault(id(thing), name)
        elif isinstance(thing, torch.nn.Module):
            prefix = f"{name}." if name else ""
            for inner, tensor in [*thing.named_parameters(), *thing.named_buffers()]:
                known.setdefault(id(tensor), prefix + inner)
        elif isinstance(thing, dict):
            for key, each in thing.items():
                learn(f"{name}[{key!r}]", each)
        elif isinstance(thing, (list, tuple)):
            for place, each in enumerate(thing):
                learn(f"{name}[{place}]", each)

    for name, each in zip(called, given, strict=True):
        learn(name, each)
    learn("", fn)
    learn("", getattr(fn, "__self__", None))
    with contextlib.suppress(TypeError):
        around = inspect.getclosurevars(inspect.unwrap(fn))
        for name, each in {**around.globals, **around.nonlocals}.items():
            learn(name, each)
    return known


def _short_name(operator: str, cls: type | None) -> str:
    """``MulBackward0`` → ``mul``, ``LogSoftmaxBackward0`` → ``log_softmax``; a custom node by its class."""
    if cls is not None:
        return cls.__name__.removeprefix("GeneratedBackwardFor_")
    plain = re.sub(r"Backward\d*$", "", operator.split("::")[-1])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def stand_in(tensor: Tensor) -> Tensor:
    """The leaf itself; for what is not a leaf, or could be overwritten by ``fn``, a copy without a past."""
    if tensor.requires_grad and tensor.is_leaf and not tensor.is_inference():
        return tensor
    copy = tensor.detach().clone()
    return copy.requires_grad_(tensor.requires_grad)


def _keep(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


@contextlib.contextmanager
def as_before(fn: Callable, inputs: tuple) -> Iterator[None]:
    """Whatever happens inside, random states and the values of inputs, parameters and buffers are put back."""
    modules = [each for each in (fn, *tree_leaves(inputs)) if isinstance(each, torch.nn.Module)]
    tensors = [each for each in tree_leaves(inputs) if isinstance(each, Tensor)]
    tensors += [each for module in modules for each in (*module.parameters(), *module.buffers())]
    copies = [(each, _keep(each)) for each in tensors if not each.is_inference()]
    python, numeric = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numeric)
        for tensor, copy in copies:
            if not torch.equal(
                tensor, copy
            ):  # batch norm changes its buffers behind the version counter's back
                tensor.data.copy_(copy)
