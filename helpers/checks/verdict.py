"""How a check speaks: the learner's view (HTML and text) and the grader's record, in one output."""

from __future__ import annotations

import html
import math
import traceback
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

MIME = "application/vnd.course.check+json"
Status = Literal["passed", "failed", "not_started"]
MAX_VALUES = 64  # numbers of one fact kept in the record; a larger tensor is thinned evenly


@dataclass(frozen=True)
class Mistake:
    """A known way to be wrong: the value it gives, and the hint for whoever gave it.

    Attributes:
        slug: the mistake's name, the same in tests, tables and class reports.
        value: what a learner who makes this mistake gets; ``None`` where the mistake is recognised otherwise.
        hint: what to tell them.
    """

    slug: str
    value: Any
    hint: str


@dataclass
class Verdict:
    """What one check found.

    Attributes:
        check: check id, ``"<notebook>/<exercise>"``.
        title: the exercise's title.
        seed: value of ``COURSE_SEED`` the inputs were drawn from.
        status: passed, failed or not started.
        facts: canonical values of what the learner's code produced, in order.
        passed: names of the facts that hold.
        failed: name of the first fact that does not.
        message: what is wrong, in words.
        got, expected: the two values side by side, where there are two.
        hint, slug: the hint that fits the mistake, and the mistake's name.
        see: where the lesson teaches it.
        notes: things in the notebook's global state that were put right for this check.
    """

    check: str
    title: str
    seed: int
    status: Status = "passed"
    facts: list[dict] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    failed: str = ""
    message: str = ""
    got: Any = None
    expected: Any = None
    hint: str = ""
    slug: str = ""
    see: str = ""
    notes: list[str] = field(default_factory=list)

    def record(self) -> dict:
        """The grader's view: canonical values, never just a verdict."""
        return {
            "schema": 1,
            "check": self.check,
            "seed": self.seed,
            "status": self.status,
            "hint": self.slug or None,
            "message": self.message or None,
            "facts": self.facts,
        }

    @property
    def headline(self) -> str:
        if self.status == "not_started":
            return f"○ {self.title}: not started yet"
        if self.status == "failed":
            return f"✗ {self.title}: {self.failed}"
        return f"✓ {self.title}: all {len(self.passed)} facts hold"

    def _comparison(self) -> tuple[str, str] | None:
        if self.got is None and self.expected is None:
            return None
        return show(self.got), show(self.expected)

    def text(self) -> str:
        """The learner's view as plain text."""
        lines = [self.headline]
        if self.status == "failed":
            lines += [f"  ✓ {name}" for name in self.passed]
            lines += [f"  ✗ {self.failed}", f"    {self.message}"]
            if sides := self._comparison():
                lines += [
                    f"    {label:>8}: {side}"
                    for label, side in zip(("yours", "expected"), sides, strict=True)
                ]
        if self.status == "not_started":
            lines.append(f"  {self.message}")
        if self.hint:
            lines.append(f"  Hint: {self.hint}")
        if self.see and self.status == "failed":
            lines.append(f"  See: {self.see}")
        lines += [f"  Note: {note}" for note in self.notes]
        return "\n".join(lines)

    def html(self) -> str:
        """The learner's view for a front end; readable in light and dark themes."""
        colour = {"passed": "#1b7f4d", "failed": "#c2410c", "not_started": "#6b7280"}[self.status]
        rows = [f"<strong>{html.escape(self.headline)}</strong>"]
        done = "".join(f"<li>✓ {html.escape(name)}</li>" for name in self.passed)
        if done:
            summary = f"{len(self.passed)} fact{'s' if len(self.passed) != 1 else ''} that hold"
            rows.append(
                f"<details><summary>{summary}</summary><ul style='list-style:none'>{done}</ul></details>"
            )
        if self.message:
            rows.append(f"<p>{html.escape(self.message)}</p>")
        if self.status == "failed" and (self.got is not None or self.expected is not None):
            rows.append(side_by_side(self.got, self.expected))
        if self.hint:
            rows.append(f"<p><strong>Hint.</strong> {html.escape(self.hint)}</p>")
        if self.see and self.status == "failed":
            rows.append(f"<p>See {html.escape(self.see)}</p>")
        rows += [f"<p><em>Note: {html.escape(note)}</em></p>" for note in self.notes]
        return (
            f"<div role='status' style='border-left:4px solid {colour};padding:2px 12px'>"
            + "".join(rows)
            + "</div>"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict:
        return {"text/plain": self.text(), "text/html": self.html(), MIME: self.record()}


def number(value: float | complex | bool) -> float | int | bool | str:
    """A number as JSON can carry it: six significant digits, NaN and infinities by name."""
    if isinstance(value, complex):
        return f"{number(value.real)}{'+' if value.imag >= 0 else ''}{number(value.imag)}j"
    if isinstance(value, bool | int):
        return value
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.6g}") + 0.0  # + 0.0 turns -0.0 into 0.0


def tensor_fact(name: str, value: Tensor, rtol: float, atol: float) -> dict:
    """The canonical record of a tensor: dtype, shape and values, with the tolerance a grader may allow."""
    flat = value.detach().resolve_conj().reshape(-1)
    if flat.numel() > MAX_VALUES:
        keep = torch.linspace(0, flat.numel() - 1, MAX_VALUES).round().long()
        flat = flat[keep]
    return {
        "name": name,
        "kind": "tensor",
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "values": [number(each) for each in flat.tolist()],
        "rtol": rtol,
        "atol": atol,
    }


def show(value: Any) -> str:
    """A value on one line, at most ten numbers."""
    if isinstance(value, Tensor):
        flat = value.detach().reshape(-1)
        shown = ", ".join(
            f"{each:.5g}" if isinstance(each, float) else str(each) for each in flat[:10].tolist()
        )
        more = f", … {flat.numel() - 10} more" if flat.numel() > 10 else ""
        kind = str(value.dtype).removeprefix("torch.")
        return f"[{shown}{more}]  ({kind}, shape {tuple(value.shape)})"
    return value if isinstance(value, str) else repr(value)


def side_by_side(got: Any, expected: Any) -> str:
    """Yours and expected as an HTML table; small matrices as grids with the wrong entries marked."""
    is_grid = (
        isinstance(got, Tensor)
        and isinstance(expected, Tensor)
        and got.shape == expected.shape
        and got.dim() == 2
        and 0 < max(got.shape) <= 8
    )
    if is_grid:
        wrong = ~torch.isclose(
            got.detach(), expected.detach().to(got.dtype), rtol=1e-4, atol=1e-7, equal_nan=True
        )
        cells = [_grid("yours", got, wrong), _grid("expected", expected, wrong & False)]
    else:
        cells = [
            f"<td style='padding-right:24px;text-align:left'><em>{label}</em><br><code>{html.escape(show(value))}</code></td>"
            for label, value in (("yours", got), ("expected", expected))
        ]
    return f"<table><tr style='vertical-align:top;background:none'>{''.join(cells)}</tr></table>"


def _grid(label: str, matrix: Tensor, wrong: Tensor) -> str:
    rows = ""
    for row, marks in zip(matrix.detach().tolist(), wrong.tolist(), strict=True):
        rows += "<tr style='background:none'>" + "".join(
            f"<td style='text-align:right;{'border:2px solid #c2410c' if bad else 'border:1px solid #9ca3af'}'>"
            f"{'✗ ' if bad else ''}{each:.4g}</td>"
            for each, bad in zip(row, marks, strict=True)
        )
        rows += "</tr>"
    return f"<td style='padding-right:24px;text-align:left'><em>{label}</em><table>{rows}</table></td>"


def learners_line(error: BaseException) -> str:
    """Where in the learner's own code an exception was raised: the innermost frame outside installed packages."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and "/helpers/" not in frame.filename.replace("\\", "/")
    ]
    if not frames or not frames[-1].line:
        return ""
    return f" at line {frames[-1].lineno} of your cell: `{frames[-1].line.strip()}`"
