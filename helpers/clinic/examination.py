"""What the probes share: the subject, the findings so far, and how a finding is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .entries import ENTRIES
from .report import Evidence, Finding
from .slopes import Slope, measure, paired, real_view
from .subject import SEED, Subject

COORDINATES = 48
NUMERIC_BUDGET = 0.6


@dataclass
class Examination:
    """An examination in progress."""

    subject: Subject
    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    subjects: set[tuple[str, str]] = field(default_factory=set)
    broken: bool = False
    failed: bool = False
    gradients: dict[int, Tensor | None] = field(default_factory=dict)
    slopes: dict[int, dict[int, Slope]] = field(default_factory=dict)
    output_dtypes: list[torch.dtype] = field(default_factory=list)
    outputs: int = 1

    def has(self, *slugs: str) -> bool:
        """Tell whether any of these was found."""
        return any(finding.slug in slugs for finding in self.findings)

    def found(self, slug: str, subject: str) -> bool:
        """Tell whether this was found about this input."""
        return (slug, subject) in self.subjects

    def report(
        self,
        slug: str,
        title: str,
        numbers: Sequence[tuple[str, object]],
        reproduce: str,
        *,
        subject: str = "",
        where: str | None = None,
        severity: str | None = None,
        explanation: str = "",
        cure: str = "",
    ) -> None:
        """Add a finding, once per kind and subject."""
        if (slug, subject) in self.subjects:
            return
        self.subjects.add((slug, subject))
        entry = ENTRIES[slug]
        if "torch." in reproduce and "import torch" not in reproduce:
            reproduce = f"import torch\n{reproduce}"
        told = tuple((label, rounded(value)) for label, value in numbers)
        self.findings.append(
            Finding(
                slug,
                severity or entry.severity,
                title,
                Evidence(told, reproduce.strip("\n")),
                explanation or entry.why,
                cure or entry.cure,
                self.subject.where() if where is None else where,
            )
        )

    def name(self, number: int) -> str:
        """Return the name of an input."""
        return self.subject.slots[number].name

    def reference(self, number: int) -> str:
        """Return how the lines that reproduce a finding refer to an input."""
        slot = self.subject.slots[number]
        return f"inputs[{slot.leaf}]" if slot.parameter is None else f"fn.get_parameter({slot.parameter!r})"

    def replaced(self, number: int, by: str) -> str:
        """Return a call of ``fn`` in which one input is replaced."""
        leaf = self.subject.slots[number].leaf
        if leaf is None:
            return (
                f"torch.func.functional_call(fn, {{{self.subject.slots[number].parameter!r}: {by}}}, inputs)"
            )
        return f"fn(*inputs[:{leaf}], {by}, *inputs[{leaf + 1}:])"

    def opening(self, change: str = "") -> str:
        """Return the lines that call ``fn``, after a change to ``inputs``, and draw the upstream gradient ``v``."""
        lines = ["import torch"]
        if self.subject.upcasted:
            lines.append(
                "inputs = [i.detach().double().requires_grad_(i.requires_grad) if torch.is_tensor(i)"
                " and i.is_floating_point() else i for i in inputs]"
            )
        lines += [change] if change else []
        draw = "torch.randn({o}.shape, dtype={o}.dtype, generator=torch.Generator().manual_seed({k}))"
        if self.outputs == 1:
            lines += ["out = fn(*inputs)", f"v = {draw.format(o='out', k=SEED)}"]
        else:
            lines += [
                "out = fn(*inputs)",
                "keep = [k for k, o in enumerate(out) if o.requires_grad]",
                "out = [out[k] for k in keep]",
                f"v = [{draw.format(o='o', k=f'{SEED} + k')} for k, o in zip(keep, out)]",
            ]
        return "\n".join(lines)

    @property
    def precision(self) -> torch.dtype:
        """The coarsest real dtype that values pass through."""
        if self.has("dtype-loss"):
            return torch.float32
        dtypes = [slot.value.dtype for slot in self.subject.slots if slot.active] + self.output_dtypes
        real = [torch.empty(0, dtype=d).real.dtype if d.is_complex else d for d in dtypes]
        return max(
            (d for d in real if d.is_floating_point), key=lambda d: torch.finfo(d).eps, default=torch.float64
        )

    def differs(self, a: Tensor | None, b: Tensor | None, tolerance: float = 1e-9) -> bool:
        """Tell whether two gradients differ by more than round-off of the working precision.

        A gradient that is zero but for round-off is measured against the largest of all gradients, and against
        upstream gradients of size one.
        """
        unit = torch.finfo(self.precision).eps
        sizes = [
            float(g.detach().abs().max()) for g in self.gradients.values() if g is not None and g.numel()
        ]
        largest = max([1.0, *(size for size in sizes if math.isfinite(size))])
        return differs(a, b, max(tolerance, 100 * unit), 100 * unit * largest)

    def loss(self, values: Sequence[Tensor], upstream: dict[int, Tensor]) -> tuple[float | None, float]:
        """Return the inner product of outputs and upstream, and the size of its largest term."""
        try:
            with torch.no_grad():
                outputs = self.subject.run(values, active=[]).outputs
            terms = [paired(upstream[number], outputs[number]) for number in upstream]
        except (IndexError, RuntimeError, ValueError, ArithmeticError, TypeError, AssertionError):
            return None, 0.0
        if not terms or not all(bool(term.isfinite().all()) for term in terms):
            return None, 0.0
        size = max((float(term.abs().max()) for term in terms if term.numel()), default=0.0)
        total = math.fsum(math.fsum(term.tolist()) for term in terms if term.numel() <= 10_000)
        total += sum(float(term.sum()) for term in terms if term.numel() > 10_000)
        return total, size

    def slope(
        self, values: Sequence[Tensor], upstream: dict[int, Tensor], slot: int, coordinate: int
    ) -> Slope:
        """Measure the derivative of the loss by one coordinate of one input."""

        def moved(offset: float) -> float | None:
            trial = list(values)
            trial[slot] = trial[slot].clone(memory_format=torch.contiguous_format)
            real_view(trial[slot])[coordinate] += offset
            return self.loss(trial, upstream)[0]

        at = float(real_view(values[slot])[coordinate])
        _, size = self.loss(values, upstream)
        return measure(moved, at, self.precision, size)

    def coordinates(self, slot: int) -> list[int]:
        """Return the coordinates of an input to examine: all of a few, or a spread of many."""
        total = real_view(self.subject.slots[slot].value).numel()
        affordable = NUMERIC_BUDGET / max(self.subject.seconds, 1e-6) / 9 / max(len(self.subject.active), 1)
        limit = int(max(4, min(COORDINATES, affordable)))
        if total <= limit:
            return list(range(total))
        spread = torch.randperm(total, generator=torch.Generator().manual_seed(0))[: limit - 2].tolist()
        return sorted({0, total - 1, *spread})


def rounded(value: object) -> str:
    """Return numbers to four significant digits, the same on every run."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    if isinstance(value, Tensor):
        value = real_view(value) if value.is_complex() else value
        flat = value.detach().reshape(-1)
        shown = ", ".join(rounded(item) for item in flat[:6].tolist())
        return f"[{shown}{', …' if flat.numel() > 6 else ''}]" if value.dim() else shown
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}" if value else "0"
    if isinstance(value, list | tuple):
        return f"[{', '.join(rounded(item) for item in value)}]"
    return str(value)


def differs(a: Tensor | None, b: Tensor | None, tolerance: float = 1e-9, floor: float = 0.0) -> bool:
    """Tell whether two tensors differ by more than a share of their size and ``floor``; ``None`` counts as zeros."""
    if a is None and b is None:
        return False
    a = torch.zeros_like(b) if a is None else a
    b = torch.zeros_like(a) if b is None else b
    if a.shape != b.shape:
        return True
    if a.numel() == 0:
        return False
    a, b = (t.detach().to(torch.cdouble if t.is_complex() else torch.double) for t in (a, b))
    if not bool(((a == b) | (a != a) & (b != b) | (a.isfinite() & b.isfinite())).all()):
        return True
    a, b = a.nan_to_num(0, 0, 0), b.nan_to_num(0, 0, 0)
    size = max(float(a.abs().max()), float(b.abs().max()))
    return float((a - b).abs().max()) > tolerance * size + floor
