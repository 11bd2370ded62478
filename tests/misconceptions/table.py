"""The table of exercises and the mistakes their checks recognise, for ``docs/misconceptions.md``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from helpers.course import load

HERE = Path(__file__).parent


def rows() -> list[tuple[str, str, list[tuple[str, str]], int]]:
    """``(check id, title, [(slug, story)], number of right answers)`` for each exercise, in order."""
    made = []
    for exercise in load().exercises():
        folder = HERE / exercise.notebook / exercise.id
        wrong = []
        for path in sorted(folder.glob("wrong_*.py")):
            slug, story = path.read_text(encoding="utf-8").split("\n")[:2]
            wrong.append((slug.removeprefix("# hint: "), story.removeprefix("# story: ")))
        made.append((exercise.check_id, exercise.title, wrong, len(list(folder.glob("right_*.py")))))
    return made


def render() -> str:
    """The page as Markdown."""
    table = rows()
    wrong = sum(len(each[2]) for each in table)
    right = sum(each[3] for each in table)
    lines = [
        "# Mistakes that the checks recognise",
        "",
        f"{len(table)} exercises, {wrong} wrong answers with their own hints, {right} right answers written differently; "
        "all of them run in the test suite (`tests/misconceptions`). Made by `make docs`.",
        "",
    ]
    for check_id, title, mistakes, rights in table:
        lines += [f"## {check_id}: {title}", "", f"{len(mistakes)} mistakes, {rights} right answers.", ""]
        lines += ["| hint | who writes it |", "|---|---|"]
        lines += [f"| `{slug}` | {story.replace('|', chr(92) + '|')} |" for slug, story in mistakes]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file to write (default: standard output)")
    out = parser.parse_args().out
    if out:
        out.write_text(render(), encoding="utf-8")
    else:
        sys.stdout.write(render())
