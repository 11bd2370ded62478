"""The note on the pot: what a function keeps between forward and backward, and in how many bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from matplotlib.patches import Rectangle
from torch import Tensor
from torch.autograd.graph import Node, saved_tensors_hooks

from .palette import CUSTOM, FORWARD, MUTED, RULE, TEXT
from .stage import Control, FrameExplorer, Picture

MOMENTS = ("after forward", "after backward")
MAX_ROWS = 9
ROW, TOP, WIDTH = 34, 74, 720


@dataclass(frozen=True)
class Saved:
    """One tensor that waits for backward.

    Attributes:
        keeper: the graph node that keeps it.
        what: ``"input x"``, ``"output"``, ``"parameter"``, ``"intermediate"`` or ``"attribute <name>"``.
        shape, dtype, bytes: of the tensor.
        shared: the memory belongs to an input, an output or a parameter, so keeping it costs nothing more.
        hidden: kept as an attribute of ctx: autograd neither watches nor frees it.
        freed: backward released it.
        memory: tells tensors that share memory, such as an output saved by two nodes.
    """

    keeper: str
    what: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    bytes: int
    shared: bool
    hidden: bool
    freed: bool
    memory: int = field(repr=False)


def saved(fn: Callable, *inputs: object) -> list[Saved]:
    """Run ``fn`` forward and backward, and report what its graph kept in between, in the order of saving.

    Raises:
        ValueError: no input requires a gradient, or the result has no graph.
    """
    if not any(isinstance(each, Tensor) and each.requires_grad for each in inputs):
        raise ValueError("no input requires a gradient, so nothing is kept; pass x.requires_grad_().")
    packed: list[Tensor] = []
    read: list[int] = []

    def pack(tensor: Tensor) -> int:
        packed.append(tensor)
        return len(packed) - 1

    def unpack(place: int) -> Tensor:
        read.append(place)
        return packed[place]

    with saved_tensors_hooks(pack, unpack):
        result = fn(*inputs)
    outputs = [each for each in _tensors(result) if each.grad_fn is not None]
    if not outputs:
        raise ValueError(
            "the result has no graph: it was detached, or computed under no_grad or from no input."
        )

    nodes = list(_nodes(outputs))
    known = {each.untyped_storage().data_ptr(): "output" for each in outputs}
    known |= {
        node.variable.untyped_storage().data_ptr(): "parameter" for node in nodes if hasattr(node, "variable")
    }
    for number, each in enumerate(inputs):
        if isinstance(each, Tensor):
            known[each.untyped_storage().data_ptr()] = f"input {number}"

    found: dict[int, tuple[Node, Tensor]] = {}
    hidden: list[tuple[Node, str, Tensor]] = []
    for node in nodes:
        read.clear()
        _touch(node)
        found |= {place: (node, packed[place]) for place in read if place not in found}
        hidden += [(node, name, each) for name, held in _attributes(node) for each in _tensors(held)]

    leaves = [each for each in inputs if isinstance(each, Tensor) and each.requires_grad]
    ones = [torch.ones_like(each) for each in outputs]
    torch.autograd.grad(outputs, leaves, ones, allow_unused=True)

    def entry(node: Node, tensor: Tensor, name: str = "") -> Saved:
        owner = known.get(tensor.untyped_storage().data_ptr(), "")
        what = f"attribute {name}" if name else owner or "intermediate"
        size = tensor.numel() * tensor.element_size()
        freed = not name and not _touch(node)
        return Saved(
            node.name(),
            what,
            tuple(tensor.shape),
            tensor.dtype,
            size,
            bool(owner),
            bool(name),
            freed,
            tensor.untyped_storage().data_ptr(),
        )

    return [entry(*found[place]) for place in sorted(found)] + [
        entry(node, tensor, name) for node, name, tensor in hidden
    ]


class SavedTensors(FrameExplorer):
    """What waits between forward and backward: each tensor, who keeps it, its shape and bytes, and what outlives backward.

    Args:
        fn: the function to look at, or a mapping of names to functions to compare.
        inputs: its arguments; at least one tensor with ``requires_grad=True``.

    Attributes:
        notes: for each name, the list of ``Saved`` tensors.

    Raises:
        ValueError: no input requires a gradient, the result has no graph, or the mapping is empty.
    """

    title = "What waits between forward and backward"

    def __init__(self, fn: Callable | Mapping[str, Callable], *inputs: object) -> None:
        functions = dict(fn) if isinstance(fn, Mapping) else {_name(fn): fn}
        if not functions:
            raise ValueError("fn is an empty mapping; name at least one function.")
        self.notes = {name: saved(each, *inputs) for name, each in functions.items()}
        rows = min(MAX_ROWS, max(1, *map(len, self.notes.values())))
        self.size = (WIDTH, TOP + ROW * rows + 52)
        moment = Control("moment", "moment", MOMENTS, kind="choice")
        choice = Control("function", "function", list(functions), kind="choice")
        super().__init__(*((choice, moment) if len(functions) > 1 else (moment,)))

    @property
    def function(self) -> str:
        """The name of the chosen function."""
        return self["function"] if "function" in self.controls else next(iter(self.notes))

    @property
    def kept(self) -> list[Saved]:
        """What is kept at the chosen moment."""
        late = self["moment"] == "after backward"
        return [each for each in self.notes[self.function] if not (late and each.freed)]

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes kept at the chosen moment, and how many of them exist for backward alone."""
        return _bytes(self.kept), _bytes(each for each in self.kept if not each.shared)

    def stage(self, picture: Picture) -> None:
        self._panel = picture.figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(self.size[1], 0))
        self._panel.axis("off")
        for x, head, side in (
            (4, "tensor", "left"),
            (178, "kept by", "left"),
            (400, "shape and dtype", "left"),
        ):
            self._panel.text(x, 52, head, color=MUTED.light, fontsize=12, ha=side)
        self._panel.text(WIDTH - 6, 52, "bytes", color=MUTED.light, fontsize=12, ha="right")
        self._panel.plot([0, WIDTH], [60, 60], color=RULE.light, linewidth=1)
        foot = self.size[1] - 16
        for x, style, words in (
            (4, _style(shared=False, hidden=False), "for backward alone"),
            (178, _style(shared=True, hidden=False), "shared: exists anyway"),
            (365, _style(shared=False, hidden=True), "on ctx: autograd does not free it"),
        ):
            self._panel.add_patch(Rectangle((x, foot - 11), 18, 12, **style))
            self._panel.text(x + 25, foot, words, color=MUTED.light, fontsize=12)
        self._drawings = {
            (name, moment): self._rows(name, moment) for name in self.notes for moment in MOMENTS
        }
        for artists in self._drawings.values():
            picture.move(*artists)

    def _rows(self, name: str, moment: str) -> list:
        """One row per tensor; freed ones leave their row empty."""
        note = self.notes[name]
        largest = max((each.bytes for each in note), default=0) or 1
        late = moment == "after backward"
        made = []
        for row, each in enumerate(note[:MAX_ROWS]):
            y = TOP + ROW * row + 14
            gone = late and each.freed
            ink = MUTED if gone else TEXT
            put = {"color": ink.light, "fontsize": 13}
            made += [
                self._panel.text(4, y, each.what, weight="bold", **put),
                self._panel.text(178, y, each.keeper, **put),
                self._panel.text(400, y, _form(each), **put),
                self._panel.text(WIDTH - 6, y, "freed" if gone else f"{each.bytes:,}", ha="right", **put),
            ]
            width = 86 * each.bytes / largest
            if not gone and width:
                bar = Rectangle((572, y - 11), width, 13, **_style(each.shared, each.hidden))
                made.append(self._panel.add_patch(bar))
        total, alone = (
            _bytes(each for each in note if not (late and each.freed) and not (own and each.shared))
            for own in (False, True)
        )
        more = f" (and {len(note) - MAX_ROWS} more tensors)" if len(note) > MAX_ROWS else ""
        said = f"{moment}: {total:,} bytes kept{more}, {alone:,} of them for backward alone"
        said = said if total else f"{moment}: nothing is kept"
        return [self._panel.text(4, 24, said, weight="bold", fontsize=14), *made]

    def move(self, picture: Picture) -> None:
        picture.moving[:] = self._drawings[self.function, self["moment"]]

    def describe(self) -> str:
        total, alone = self.bytes
        rows = "; ".join(f"{each.what} {_form(each)} by {each.keeper}" for each in self.kept[:MAX_ROWS])
        count = f"{len(self.kept)} tensor{'' if len(self.kept) == 1 else 's'}"
        return (
            f"{self['moment'].capitalize()}, {self.function} keeps {count}, {total:,} bytes, {alone:,} of them "
            f"for backward alone{': ' + rows if rows else ''}."
        )


def _bytes(note: Iterable[Saved]) -> int:
    """Bytes of a note; memory that several nodes keep counts once."""
    sizes: dict[int, int] = {}
    for each in note:
        sizes[each.memory] = max(each.bytes, sizes.get(each.memory, 0))
    return sum(sizes.values())


def _style(shared: bool, hidden: bool) -> dict:
    if hidden:
        return {
            "facecolor": (CUSTOM.light, 0.25),
            "edgecolor": CUSTOM.light,
            "hatch": "////",
            "linewidth": 1.5,
        }
    if shared:
        return {"facecolor": "none", "edgecolor": FORWARD.light, "linewidth": 1.5}
    return {"facecolor": FORWARD.light, "edgecolor": FORWARD.light, "linewidth": 1.5}


def _form(each: Saved) -> str:
    return f"({', '.join(map(str, each.shape))}) {str(each.dtype).removeprefix('torch.')}"


def _name(fn: Callable) -> str:
    owner = getattr(fn, "__self__", None)
    named = owner if isinstance(owner, type) else fn
    return getattr(named, "__name__", type(fn).__name__).replace("<lambda>", "fn")


def _tensors(held: object) -> Iterator[Tensor]:
    """Tensors in a result or attribute: itself, or inside tuples, lists and dictionaries."""
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, Mapping):
        yield from _tensors(list(held.values()))
    elif isinstance(held, (tuple, list)):
        for each in held:
            yield from _tensors(each)


def _nodes(outputs: list[Tensor]) -> Iterator[Node]:
    waiting, seen = [each.grad_fn for each in outputs], set()
    while waiting:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [following for following, _ in node.next_functions]


def _attributes(node: Node) -> list[tuple[str, object]]:
    """What a Function's methods put on ctx by themselves."""
    return list(vars(node).items()) if hasattr(type(node), "_forward_cls") else []


def _touch(node: Node) -> bool:
    """Read everything a node has saved, through the hooks; False if it has been freed."""
    names = [name for name in dir(node) if name.startswith("_saved_")]
    if hasattr(type(node), "_forward_cls"):
        names = ["saved_tensors"]
    try:
        for name in names:
            getattr(node, name)
    except RuntimeError:
        return False
    return True
