"""What grading leaves behind: one JSON line per submission at once, then tables and pages made from them."""

from __future__ import annotations

import csv
import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[0-9;?]*[ -/]*[@-~]")
MOST_MESSAGE = 600

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>body{{font:16px/1.5 sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}}
table{{border-collapse:collapse;width:100%}}td,th{{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8888}}
.bar{{display:inline-block;height:.8em;background:#0072b2;vertical-align:middle}}</style></head><body>{body}</body></html>
"""


def clean(text: object) -> str:
    """Text without control characters or terminal colours, cut to a readable length."""
    return CONTROL.sub("", str(text))[:MOST_MESSAGE]


def cell(value: object) -> object:
    """A value for a spreadsheet: text that a spreadsheet would take for a formula is made plain text."""
    if not isinstance(value, str):
        return value
    value = clean(value)
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def append(path: Path, row: dict) -> None:
    """Write one result so that it survives whatever comes next, on a line of its own even after a line cut off."""
    cut = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        if cut:
            file.write("\n")
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[dict]:
    """Results written so far, the last one for each submission; a line cut off by a crash is left out."""
    rows: dict[str, dict] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            rows[row["submission"]] = row
        except (ValueError, TypeError, KeyError):
            continue
    return list(rows.values())


def write(out: Path, rows: Sequence[dict]) -> None:
    """Write every table and page for these results; each file is replaced whole."""
    rows = sorted(rows, key=lambda row: row["submission"])
    _replace(out / "gradebook.csv", _csv(rows))
    for row in rows:
        name = re.sub(r"[^\w.-]+", "_", row["submission"]).strip("._") or "submission"
        _replace(out / "feedback" / f"{name}.html", feedback(row))
        _replace(out / "junit" / f"{name}.xml", junit(row))
    _replace(out / "class.html", report(rows))


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8", newline="")
    fresh.replace(path)


def _csv(rows: Sequence[dict]) -> str:
    import io

    checks = sorted({(row["notebook"], each["exercise"]) for row in rows for each in row["marks"]})
    made = io.StringIO()
    table = csv.writer(made, quoting=csv.QUOTE_NONNUMERIC)
    table.writerow(
        ["learner", "notebook", "status", "earned", "possible", *("/".join(each) for each in checks), "flags"]
    )
    for row in rows:
        earned = {each["exercise"]: each["earned"] for each in row["marks"]}
        points = [
            earned.get(exercise, "") if notebook == row["notebook"] else "" for notebook, exercise in checks
        ]
        head = [row["learner"], row["notebook"], row["status"], row["earned"], row["possible"]]
        table.writerow([cell(each) for each in [*head, *points, " ".join(row["flags"])]])
    return made.getvalue()


def feedback(row: dict) -> str:
    """The learner's page: verdict, points and hint for each exercise; no keyed value, nothing that could run."""
    lines = [f"<h1>{html.escape(clean(row['notebook']))}</h1>"]
    lines.append(
        f"<p>{html.escape(clean(row['learner']))}: {row['earned']:g} of {row['possible']:g} points ({row['status']}).</p>"
    )
    if row.get("message"):
        lines.append(f"<p>{html.escape(clean(row['message']))}</p>")
    lines.append("<table><tr><th>Exercise</th><th>Verdict</th><th>Points</th><th>What to look at</th></tr>")
    for each in row["marks"]:
        hint = f"{each['message']} (hint: {each['hint']})" if each["hint"] else each["message"]
        sign = {"passed": "✓", "not_started": "○"}.get(each["verdict"], "✗")
        lines.append(
            f"<tr><td>{html.escape(clean(each['title']))}</td><td>{sign} {each['verdict'].replace('_', ' ')}</td>"
            f"<td>{each['earned']:g} of {each['points']:g}</td><td>{html.escape(clean(hint))}</td></tr>"
        )
    lines.append("</table>")
    lines += [f"<p>Note: {html.escape(clean(flag))}</p>" for flag in row["flags"]]
    return PAGE.format(title="Feedback", body="\n".join(lines))


def junit(row: dict) -> str:
    """The same as JUnit XML, one test case for each exercise, points as properties."""
    suite = ElementTree.Element("testsuite", name=clean(row["submission"]), tests=str(len(row["marks"])))
    for each in row["marks"]:
        case = ElementTree.SubElement(
            suite, "testcase", classname=row["sha256"][:12] or "unreadable", name=each["exercise"]
        )
        properties = ElementTree.SubElement(case, "properties")
        for name in ("points", "earned", "verdict"):
            ElementTree.SubElement(properties, "property", name=name, value=str(each[name]))
        if each["verdict"] == "not_started":
            ElementTree.SubElement(case, "skipped", message="not started")
        elif each["verdict"] != "passed":
            ElementTree.SubElement(case, "failure", message=clean(each["message"]))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def report(rows: Sequence[dict]) -> str:
    """The instructor's page: how each exercise went, and the mistakes made most."""
    lines = [f"<h1>Class report</h1><p>{len(rows)} submissions.</p>", "<h2>Statuses</h2><table>"]
    for status, count in Counter(row["status"] for row in rows).most_common():
        lines.append(f"<tr><td>{status}</td><td>{count}</td></tr>")
    lines.append(
        "</table><h2>Exercises</h2><table><tr><th>Exercise</th><th>Passed</th><th>Most frequent mistakes</th></tr>"
    )
    for check, marks in _by_check(rows):
        passed = sum(each["verdict"] == "passed" for each in marks)
        hints = Counter(
            each["hint"] or each["verdict"] for each in marks if each["verdict"] != "passed"
        ).most_common(4)
        said = ", ".join(f"{html.escape(clean(hint))} ({count})" for hint, count in hints)
        width = 8 * passed / len(marks)
        lines.append(
            f"<tr><td>{html.escape(check)}</td><td><span class='bar' style='width:{width:.2f}rem' aria-hidden='true'></span> "
            f"{passed} of {len(marks)}</td><td>{said}</td></tr>"
        )
    lines.append("</table>")
    flagged = [(row["submission"], flag) for row in rows for flag in row["flags"]]
    if flagged:
        lines.append("<h2>To look at</h2><ul>")
        lines += [
            f"<li>{html.escape(clean(name))}: {html.escape(clean(flag))}</li>" for name, flag in flagged
        ]
        lines.append("</ul>")
    return PAGE.format(title="Class report", body="\n".join(lines))


def _by_check(rows: Sequence[dict]) -> Iterable[tuple[str, list[dict]]]:
    found: dict[str, list[dict]] = {}
    for row in rows:
        for each in row["marks"]:
            found.setdefault(f"{row['notebook']}/{each['exercise']}", []).append(each)
    return sorted(found.items())
