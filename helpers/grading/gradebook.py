"""What grading leaves behind: one JSON line per submission at once, then tables and pages made from them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from . import pages
from .pages import clean


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
    by_learner: dict[str, list[dict]] = {}
    for row in rows:
        by_learner.setdefault(row["learner"], []).append(row)
    for learner, name in _file_names(by_learner).items():
        _replace(out / "feedback" / f"{name}.html", pages.feedback(learner, by_learner[learner]))
    names = _file_names(row["submission"] for row in rows)
    for row in rows:
        _replace(out / "junit" / f"{names[row['submission']]}.xml", junit(row))
    _replace(out / "class.html", pages.report(rows))


def _file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for each name; names that look alike as file names, or differ in case only, get a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^\w.-]+", "_", name).strip("._")[:100] or "submission"
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        made = next(each for each in itertools.chain([plain], numbered) if each.casefold() not in taken)
        taken.add(made.casefold())
        found[name] = made
    return found


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8", newline="")
    fresh.replace(path)


def _csv(rows: Sequence[dict]) -> str:
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
