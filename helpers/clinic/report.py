"""What the clinic found: findings, the report that holds them, and its plain-text, HTML and JSON views."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from textwrap import fill, indent

SEVERITIES = ("error", "warning", "note")
SYMBOLS = {"error": "✖", "warning": "▲", "note": "●"}


@dataclass(frozen=True)
class Evidence:
    """Numbers that a reader can check by hand, and the lines that reproduce them.

    Attributes:
        numbers: pairs of label and rounded value, in reading order.
        reproduce: a few lines of Python; ``fn`` and ``inputs`` are what ``diagnose`` was given.
    """

    numbers: tuple[tuple[str, str], ...]
    reproduce: str

    def __str__(self) -> str:
        return "; ".join(f"{label}: {value}" for label, value in self.numbers)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        slug: the kind, as in the catalogue.
        severity: ``"error"``, ``"warning"`` or ``"note"``; notes never make a Function unhealthy.
        title: one line about *this* Function.
        evidence: the numbers, and how to get them again.
        explanation: why it happens and why it matters.
        cure: what to change.
        where: the method (and file and line, where there is a file).
    """

    slug: str
    severity: str
    title: str
    evidence: Evidence
    explanation: str
    cure: str
    where: str

    def text(self) -> str:
        """Return the finding as a block of plain text."""
        lines = [f"{SYMBOLS[self.severity]} {self.severity} [{self.slug}] {self.title}"]
        if self.where:
            lines.append(f"    where      {self.where}")
        width = max((len(label) for label, _ in self.evidence.numbers), default=0)
        for number, (label, value) in enumerate(self.evidence.numbers):
            lines.append(f"    {'evidence' if number == 0 else '':<10} {label:<{width}}  {value}")
        lines.append(_paragraph("why", self.explanation))
        lines.append(_paragraph("cure", self.cure))
        lines.append("    reproduce")
        lines.append(indent(self.evidence.reproduce, " " * 8))
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """Return the finding as plain data, fit for JSON."""
        return {
            "slug": self.slug,
            "severity": self.severity,
            "title": self.title,
            "where": self.where,
            "evidence": [list(pair) for pair in self.evidence.numbers],
            "reproduce": self.evidence.reproduce,
            "explanation": self.explanation,
            "cure": self.cure,
        }


def _paragraph(label: str, text: str) -> str:
    return fill(text, width=100, initial_indent=f"    {label:<10} ", subsequent_indent=" " * 15)


@dataclass(frozen=True)
class Report:
    """Everything that one examination found.

    Attributes:
        subject: what was examined, with the inputs' dtypes and shapes.
        findings: worst first; within a severity in the order of the catalogue.
        remarks: what was sampled, skipped or left out, in sentences.
        examined: ``False`` when nothing could be learnt (the inputs do not fit, no tensor among them).
    """

    subject: str
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...] = ()
    examined: bool = field(default=True)

    @property
    def healthy(self) -> bool:
        """``True`` when nothing above note level was found."""
        return self.examined and all(finding.severity == "note" for finding in self.findings)

    @property
    def slugs(self) -> tuple[str, ...]:
        """The names of the findings, without repetition, in order."""
        return tuple(dict.fromkeys(finding.slug for finding in self.findings))

    @property
    def headline(self) -> str:
        """One line: the verdict."""
        if not self.examined:
            return f"{self.subject}: could not be examined"
        counts = {kind: sum(finding.severity == kind for finding in self.findings) for kind in SEVERITIES}
        told = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count]
        verdict = "healthy" if self.healthy else "not healthy"
        return f"{self.subject}: {verdict}" + (f" ({', '.join(told)})" if told else "")

    def text(self) -> str:
        """Return the report as plain text; the same examination always gives the same text."""
        blocks = [self.headline, *(finding.text() for finding in self.findings)]
        if self.remarks:
            blocks.append("\n".join(f"  {remark}" for remark in self.remarks))
        return "\n\n".join(blocks)

    __str__ = text
    __repr__ = text

    def as_dict(self) -> dict[str, object]:
        """Return the report as plain data, fit for JSON."""
        return {
            "subject": self.subject,
            "healthy": self.healthy,
            "examined": self.examined,
            "findings": [finding.as_dict() for finding in self.findings],
            "remarks": list(self.remarks),
        }

    def html(self) -> str:
        """Return the report as HTML that takes its colours from the JupyterLab theme."""
        cards = "".join(_card(finding) for finding in self.findings)
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in self.remarks)
        state = "healthy" if self.healthy else "sick"
        return (
            f'<section class="clinic" aria-label="{escape(self.headline, quote=True)}"><style>{STYLE}</style>'
            f'<p class="clinic-verdict clinic-{state}"><strong>{"✔" if self.healthy else "✖"} '
            f"{escape(self.headline)}</strong></p>{cards}"
            + (f'<ul class="clinic-remarks">{remarks}</ul>' if remarks else "")
            + "</section>"
        )

    def _repr_mimebundle_(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}


# A severity is told by colour, symbol and word, so that none of them is needed alone. The colours are dark
# and light enough to keep a contrast of 3:1 against both JupyterLab themes; words use the theme's own ink.
STYLE = (
    ".clinic{font-family:var(--jp-content-font-family,sans-serif);color:var(--jp-content-font-color1,inherit);"
    "max-width:60em}"
    ".clinic-card{border:1px solid var(--jp-border-color1,#888);border-left:6px solid var(--clinic-ink);"
    "border-radius:4px;padding:.4em .8em;margin:.5em 0}"
    ".clinic-error{--clinic-ink:#d1495b}.clinic-warning{--clinic-ink:#c77700}.clinic-note{--clinic-ink:#4a8fd0}"
    ".clinic-card summary{cursor:pointer}.clinic-card dl{margin:.4em 0}"
    ".clinic-card dt{font-weight:600}.clinic-card dd{margin:0 0 .4em 1em}"
    ".clinic-card td,.clinic-card th{text-align:left;color:inherit;background:none;padding:0 1em 0 0}"
    ".clinic-card table{border:none;margin:0;color:inherit;font-size:inherit}.clinic-card tr{background:none!important}"
    ".clinic-card pre{background:var(--jp-layout-color2,rgba(128,128,128,.15));color:inherit;"
    "padding:.4em;overflow-x:auto}"
    ".clinic-remarks{opacity:.85}"
)


def _prose(text: str) -> str:
    """Return text as HTML, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _card(finding: Finding) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{escape(value)}</td></tr>'
        for label, value in finding.evidence.numbers
    )
    is_open = "" if finding.severity == "note" else " open"
    return (
        f'<details class="clinic-card clinic-{finding.severity}"{is_open}><summary>'
        f'<span aria-hidden="true">{SYMBOLS[finding.severity]}</span> {finding.severity} '
        f"<code>{finding.slug}</code> {escape(finding.title)}</summary><dl>"
        + (f"<dt>Where</dt><dd><code>{escape(finding.where)}</code></dd>" if finding.where else "")
        + f"<dt>Evidence</dt><dd><table>{rows}</table></dd>"
        f"<dt>Why</dt><dd>{_prose(finding.explanation)}</dd><dt>Cure</dt><dd>{_prose(finding.cure)}</dd>"
        f"<dt>Reproduce</dt><dd><pre>{escape(finding.evidence.reproduce)}</pre></dd></dl></details>"
    )
