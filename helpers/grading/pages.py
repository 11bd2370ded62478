"""The pages that grading leaves behind: one for each learner, one about the class. Nothing on them can run."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[0-9;?]*[ -/]*[@-~]")
MAX_TEXT = 600

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>body{{font:16px/1.5 sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}}
table{{border-collapse:collapse;width:100%}}td,th{{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8888}}
.count{{white-space:nowrap;width:20rem}}
.bar{{display:inline-block;height:.8em;background:#0072b2;vertical-align:middle;min-width:1px}}</style></head><body>{body}</body></html>
"""
SIGNS = {"passed": "✓", "not_started": "○"}
BINS = 5  # of the histogram of a notebook's points


def clean(text: object) -> str:
    """Text without control characters or terminal colours, cut to a readable length."""
    return CONTROL.sub("", str(text))[:MAX_TEXT]


def safe(text: object) -> str:
    """Text as it may stand on a page."""
    return html.escape(clean(text))


def feedback(learner: str, rows: Sequence[dict]) -> str:
    """A learner's page: verdict, points and hint for each exercise of each notebook; no keyed value."""
    lines = [f"<h1>{safe(learner)}</h1>"]
    if len(rows) > 1:
        earned, possible = (sum(row[name] for row in rows) for name in ("earned", "possible"))
        lines.append(f"<p>{earned:g} of {possible:g} points in {len(rows)} notebooks.</p>")
    for row in rows:
        lines.append(f"<h2>{safe(row['notebook'] or row['submission'])}</h2>")
        lines.append(f"<p>{row['earned']:g} of {row['possible']:g} points ({row['status']}).</p>")
        if row.get("message"):
            lines.append(f"<p>{safe(row['message'])}</p>")
        if row["marks"]:
            lines += _table(("Exercise", "Verdict", "Points", "What to look at"), map(_cells, row["marks"]))
        lines += [f"<p>Note: {safe(flag)}</p>" for flag in row["flags"]]
    return PAGE.format(title="Feedback", body="\n".join(lines))


def _cells(mark: dict) -> tuple[str, ...]:
    sign = SIGNS.get(mark["verdict"], "✗")
    hint = f"{mark['message']} (hint: {mark['hint']})" if mark["hint"] else mark["message"]
    verdict = f"{sign} {mark['verdict'].replace('_', ' ')}"
    return safe(mark["title"]), verdict, f"{mark['earned']:g} of {mark['points']:g}", safe(hint)


def report(rows: Sequence[dict]) -> str:
    """The instructor's page: how points are spread, what became of each exercise, the mistakes made most."""
    lines = [f"<h1>Class report</h1><p>{len(rows)} submissions.</p>", "<h2>Statuses</h2>"]
    lines += _histogram("Status", Counter(row["status"] for row in rows).most_common())
    mistakes = Counter(
        (f"{row['notebook']}/{mark['exercise']}", mark["hint"])
        for row in rows
        for mark in row["marks"]
        if mark["hint"] and mark["verdict"] != "passed"
    )
    if mistakes:
        lines.append("<h2>Mistakes made most</h2>")
        lines += _histogram(
            "Mistake", [(f"{hint} in {check}", n) for (check, hint), n in mistakes.most_common(10)]
        )
    for notebook in sorted({row["notebook"] for row in rows if row["marks"]}):
        lines += _of_notebook(notebook, [row for row in rows if row["notebook"] == notebook and row["marks"]])
    flagged = [(row["submission"], flag) for row in rows for flag in row["flags"]]
    if flagged:
        lines.append("<h2>To look at</h2><ul>")
        lines += [f"<li>{safe(name)}: {safe(flag)}</li>" for name, flag in flagged]
        lines.append("</ul>")
    return PAGE.format(title="Class report", body="\n".join(lines))


def _of_notebook(notebook: str, rows: Sequence[dict]) -> list[str]:
    lines = [f"<h2>{safe(notebook)}</h2>"]
    shares = [row["earned"] / row["possible"] if row["possible"] else 0.0 for row in rows]
    counts = Counter(min(int(share * BINS), BINS - 1) for share in shares)
    names = [f"{100 * k // BINS} to {100 * (k + 1) // BINS} %" for k in range(BINS)]
    lines += _histogram("Share of the points", [(names[k], counts[k]) for k in range(BINS)])
    for exercise in dict.fromkeys(mark["exercise"] for row in rows for mark in row["marks"]):
        marks = [mark for row in rows for mark in row["marks"] if mark["exercise"] == exercise]
        outcomes = Counter(_outcome(mark) for mark in marks)
        first = [(name, outcomes.pop(name, 0)) for name in ("passed", "not started")]
        lines.append(f"<h3>{safe(marks[0]['title'])} ({safe(exercise)})</h3>")
        lines += _histogram("Outcome", [first[0], *outcomes.most_common(), first[1]])
    return lines


def _outcome(mark: dict) -> str:
    verdict = mark["verdict"].replace("_", " ")
    return f"{verdict}: {mark['hint']}" if mark["hint"] and mark["verdict"] != "passed" else verdict


def _histogram(what: str, counts: Sequence[tuple[str, int]]) -> list[str]:
    """A bar for each count, with the number beside it."""
    most = max((count for _, count in counts), default=1) or 1
    bar = "<span class='bar' style='width:{:.2f}rem' aria-hidden='true'></span> {}"
    cells = ((safe(name), bar.format(12 * count / most, count)) for name, count in counts)
    return _table((what, "Submissions"), cells)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    titles = "".join(f"<th scope='col'>{title}</th>" for title in head)
    lines = ["<table>", f"<tr>{titles}</tr>"]
    for first, *others, last in rows:
        middle = "".join(f"<td>{other}</td>" for other in others)
        lines.append(
            f"<tr><td>{first}</td>{middle}<td class='{'count' if not others else ''}'>{last}</td></tr>"
        )
    return [*lines, "</table>"]
