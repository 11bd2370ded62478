"""A recorded graph: plain data, readable as a picture's source, as a table, or as an ordered list of sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

KINDS = ("leaf", "constant", "operator", "custom", "output")


@dataclass(frozen=True)
class Saved:
    """A tensor that a node keeps for backward.

    Attributes:
        name: how the node calls it, e.g. ``self``, ``result``, ``saved_tensors[0]``, ``ctx.x``.
        shape, dtype, bytes: of the tensor.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    bytes: int


@dataclass
class Node:
    """One thing in the graph.

    Attributes:
        id: its position in ``Recording.nodes``.
        kind: ``"leaf"`` (a tensor that collects a gradient), ``"constant"`` (a tensor that takes part without one),
            ``"operator"`` (PyTorch's), ``"custom"`` (an ``autograd.Function``), or ``"output"``.
        name: short and unique, e.g. ``x``, ``mul``, ``mul₂``, ``CustomHuber``, ``output``.
        operator: autograd's own name, e.g. ``MulBackward0``; empty for constants and outputs.
        arguments: what the call was given besides tensors, e.g. ``("exponent=3",)``.
        values: the forward values it gives, one per output; ``None`` where none was seen.
        upstream: the gradient of each of its outputs as it arrives, summed over all consumers; for a leaf what it
            would add to ``.grad``. ``None`` where none arrived.
        saved: what it keeps for backward.
        function: the ``autograd.Function`` class of a custom node.
        rule: the rule by which a custom node departs from the derivative on purpose, if it declares one.
        inside: the ``autograd.Function`` whose forward made this node, when recorded with ``custom=False``.
        tensor: the tensor itself, of a leaf.
    """

    id: int
    kind: str
    name: str
    operator: str = ""
    arguments: tuple[str, ...] = ()
    values: tuple[Tensor | None, ...] = ()
    upstream: tuple[Tensor | None, ...] = ()
    saved: tuple[Saved, ...] = ()
    function: type | None = None
    rule: str = ""
    inside: str = ""
    tensor: Tensor | None = field(default=None, repr=False)

    @property
    def value(self) -> Tensor | None:
        """Its first, mostly its only, forward value."""
        return self.values[0] if self.values else None

    @property
    def gradient(self) -> Tensor | None:
        """The gradient of its first, mostly its only, output."""
        return self.upstream[0] if self.upstream else None

    @property
    def bytes(self) -> int:
        """What it keeps for backward, in bytes."""
        return sum(each.bytes for each in self.saved)


@dataclass(frozen=True)
class Edge:
    """A value on its way forward from ``source`` to ``target``, and the gradient on its way back.

    Attributes:
        source, output: a node, and which of its outputs.
        target, input: a node, and which of its inputs (as autograd numbers them).
        value: the forward value.
        upstream: the gradients that ``target`` received for its outputs.
        gradient: what ``target`` sends back along this edge; ``None`` if nothing, or if no gradient can pass.
        differentiable: a gradient can pass. The edge of a constant, or of an integer output, is not.
        local: the local derivative, ``gradient / upstream``, where all three are single numbers and upstream is
            not 0; else ``None``.
    """

    source: int
    output: int
    target: int
    input: int
    value: Tensor | None
    upstream: tuple[Tensor | None, ...]
    gradient: Tensor | None
    differentiable: bool
    local: float | None

    @property
    def vjp(self) -> str:
        """The vector-Jacobian product in words: the shapes that went in and out, and their norms."""
        if not self.differentiable:
            return "no gradient"
        arrived = [each for each in self.upstream if each is not None]
        if self.gradient is None or not arrived:
            return "nothing"
        if self.local is not None:
            return f"{numbers(arrived[0])} · {_number(self.local)} = {numbers(self.gradient)}"
        before = " and ".join(str(tuple(each.shape)) for each in arrived)
        norm = math.sqrt(sum(_norm(each) ** 2 for each in arrived))
        return (
            f"{before} → {tuple(self.gradient.shape)}, norm {_number(norm)} → {_number(_norm(self.gradient))}"
        )


@dataclass(frozen=True)
class Event:
    """One thing that happened: ``phase`` is ``"forward"`` or ``"backward"``, ``node`` an id."""

    phase: str
    node: int


@dataclass
class Recording:
    """One run of a function, forward and backward, as autograd saw it.

    Attributes:
        nodes: leaves and constants, operators and outputs, in the order in which forward met them.
        edges: from each value to whoever used it.
        events: what happened, in order: forward from what was given to the outputs (by autograd's sequence numbers),
            then backward as the hooks of the nodes reported it.
        grad_outputs: the upstream gradient with which backward started, one per differentiable output.
    """

    nodes: list[Node]
    edges: list[Edge]
    events: list[Event]
    grad_outputs: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> Node:
        """The node of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(f"no node {name!r}; there are {', '.join(node.name for node in self.nodes)}.")

    def into(self, node: Node | int) -> list[Edge]:
        """The edges that end at a node, in the order of its inputs."""
        place = node if isinstance(node, int) else node.id
        return sorted((edge for edge in self.edges if edge.target == place), key=lambda edge: edge.input)

    def out_of(self, node: Node | int) -> list[Edge]:
        """The edges that start at a node."""
        place = node if isinstance(node, int) else node.id
        return [edge for edge in self.edges if edge.source == place]

    def origin(self, edge: Edge) -> str:
        """Where an edge starts: the name of the node, and which of its outputs if it has several."""
        source = self.nodes[edge.source]
        several = edge.differentiable and len(source.values) > 1
        return f"{source.name}[{edge.output}]" if several else source.name

    def of_kind(self, *kinds: str) -> list[Node]:
        """The nodes of these kinds, in order."""
        return [node for node in self.nodes if node.kind in kinds]

    @property
    def gradients(self) -> dict[str, Tensor | None]:
        """The gradient of every leaf, by name."""
        return {node.name: node.gradient for node in self.of_kind("leaf")}

    def sentence(self, event: Event, max_numbers: int = 4) -> str:
        """What happened, in words; tensors of more than ``max_numbers`` numbers by shape and norm."""
        node = self.nodes[event.node]
        return (self._forward if event.phase == "forward" else self._backward)(node, max_numbers)

    def describe(self) -> str:
        """The whole recording as a numbered list: every event in order, with its numbers."""
        return "\n".join(
            f"{number}. {event.phase.capitalize()}: {self.sentence(event)}"
            for number, event in enumerate(self.events, 1)
        )

    def table(self) -> str:
        """One line per node: kind, value, gradient, and the bytes it keeps for backward."""
        rows = [("node", "kind", "value", "gradient", "keeps")]
        for node in self.nodes:
            kept = f"{node.bytes} B" if node.saved else ""
            rows.append((node.name, node.kind, _several(node.values), _several(node.upstream), kept))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])

    def __str__(self) -> str:
        return self.table()

    def _forward(self, node: Node, max_numbers: int) -> str:
        given = [self.origin(edge) for edge in self.into(node)]
        value = (
            " and ".join(numbers(each, max_numbers) for each in node.values if each is not None) or "not seen"
        )
        if node.kind == "leaf":
            return f"{node.name} is given, {value}. It is a leaf: its gradient is collected here."
        if node.kind == "constant":
            return f"{node.name} takes part as a constant, {value}. No gradient goes to it."
        if node.kind == "output":
            if not any(edge.differentiable for edge in self.into(node)):
                return f"{node.name} is {value}. It has no graph, so no gradient starts here."
            return f"{node.name} is {value}."
        called = f"{node.name}({', '.join([*dict.fromkeys(given), *node.arguments])})"
        custom = ", a custom Function: autograd does not look inside" if node.kind == "custom" else ""
        return f"{called} gives {value}{custom}."

    def _backward(self, node: Node, max_numbers: int) -> str:
        arrived = " and ".join(
            "nothing" if each is None else numbers(each, max_numbers) for each in node.upstream
        )
        if node.kind == "output":
            return f"the gradient of {node.name} starts as {arrived}."
        if node.kind == "leaf":
            parts = [edge for edge in self.out_of(node) if edge.gradient is not None]
            summed = f", the sum of {len(parts)} parts" if len(parts) > 1 else ""
            return f"{node.name} collects {arrived}{summed}."
        sent = []
        for edge in self.into(node):
            if edge.differentiable:
                gradient = "nothing" if edge.gradient is None else numbers(edge.gradient, max_numbers)
                by = f" (local derivative {_number(edge.local)})" if edge.local is not None else ""
                sent.append(f"{gradient} to {self.origin(edge)}{by}")
        who = f"{node.name} receives {arrived}"
        if node.kind == "custom":
            rule = f", declared as {node.rule}" if node.rule else ""
            return f"{who} and injects its own gradient{rule}: it sends {_list(sent)}."
        return f"{who} and sends {_list(sent)}."


def numbers(tensor: Tensor, max_numbers: int = 4) -> str:
    """A tensor in few words: its numbers if there are at max_numbers ``max_numbers``, else its shape and norm.

    >>> numbers(torch.tensor(0.25)), numbers(torch.tensor([1.0, -2.5])), numbers(torch.ones(5, 5))
    ('0.25', '(1, −2.5)', '(5, 5) with norm 5')
    """
    dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
    if dense.numel() == 1:
        return _number(dense.item())
    if 0 < dense.numel() <= max_numbers:
        return "(" + ", ".join(_number(each) for each in dense.reshape(-1).tolist()) + ")"
    if dense.numel() == 0:
        return f"empty, shape {tuple(dense.shape)}"
    if dense.dtype == torch.bool:
        return f"{tuple(dense.shape)} with {int(dense.sum())} true"
    return f"{tuple(dense.shape)} with norm {_number(_norm(dense))}"


def _number(value: complex) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, complex):
        sign = "+" if value.imag >= 0 or math.isnan(value.imag) else "−"
        return f"{_number(value.real)} {sign} {_number(abs(value.imag))}i"
    if isinstance(value, int) or math.isnan(value):
        text = str(value)
    else:
        text = f"{value + 0.0:.4g}"
        mantissa, _, power = text.partition("e")
        text = f"{mantissa}e{int(power)}" if power else text
    return text.replace("-", "−").replace("nan", "NaN")


def _norm(tensor: Tensor) -> float:
    dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
    wide = torch.complex128 if dense.is_complex() else torch.float64
    return torch.linalg.vector_norm(dense.to(wide)).item()


def _several(tensors: Sequence[Tensor | None]) -> str:
    return "; ".join("none" if each is None else numbers(each) for each in tensors)


def _list(parts: list[str]) -> str:
    if len(parts) < 2:
        return parts[0] if parts else "nothing"
    return ", ".join(parts[:-1]) + " and " + parts[-1]
