"""What a learner has done so far, stored beside their work in ``.course/progress.json``, never in git."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from ..course import load
from .verdict import Verdict


def store(folder: Path | None = None) -> Path:
    """Where progress is kept for notebooks in ``folder`` (default: the working directory)."""
    folder = (folder or Path.cwd()).resolve()
    home = folder.parent if folder.name in ("exercises", "solutions", "lessons") else folder
    return home / ".course" / "progress.json"


def read(folder: Path | None = None) -> dict[str, str]:
    """Status by check id. A missing or damaged store counts as no progress; it is rewritten by the next check."""
    try:
        data = json.loads(store(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        {key: value for key, value in data.items() if isinstance(value, str)}
        if isinstance(data, dict)
        else {}
    )


_session: dict[str, str] = {}


def note(verdict: Verdict) -> None:
    """Remember a verdict: in this kernel, and on disk unless ``COURSE_PROGRESS`` is ``off``."""
    _session[verdict.check] = verdict.status
    if os.environ.get("COURSE_PROGRESS") == "off":
        return
    path = store()
    try:
        path.parent.mkdir(exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(
            json.dumps(read() | {verdict.check: verdict.status}, indent=1, sort_keys=True), encoding="utf-8"
        )
        fresh.replace(path)
    except OSError:
        pass  # a read-only folder must not fail a right answer; the score in this kernel is kept all the same


def summary(notebook: str) -> None:
    """Print the score of the checks run in this kernel for one notebook, and what to do next."""
    here = load().notebook(notebook)
    done = [each for each in here.exercises if _session.get(each.check_id) == "passed"]
    waiting = [each for each in here.exercises if each not in done]
    earned = sum(each.points for each in done)
    print(f"{here.title}: {len(done)} of {len(here.exercises)} exercises, {earned} of {here.points} points.")
    if waiting:
        state = {"failed": "not right yet", "not_started": "not started"}
        for each in waiting:
            print(f"  {each.title}: {state.get(_session.get(each.check_id, ''), 'check not run')}")
        print(f"Next: {waiting[0].title} (about {waiting[0].minutes} minutes).")
        return
    names = [each.name for each in load().notebooks]
    following = names[names.index(notebook) + 1]
    print(f"All done. Next: lessons/{following}.ipynb")


def main(argv: list[str]) -> int:
    """``course progress``: what is done in each exercise notebook, and what comes next."""
    parser = argparse.ArgumentParser(prog="course progress", description=main.__doc__)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="the course's folder")
    parser.add_argument("--forget", action="store_true", help="start afresh: forget all progress")
    options = parser.parse_args(argv)
    if options.forget:
        store(options.folder).unlink(missing_ok=True)
    status, following = read(options.folder), None
    for notebook in load().notebooks:
        done = [each for each in notebook.exercises if status.get(each.check_id) == "passed"]
        if notebook.exercises:
            marks = "".join(_MARKS[status.get(each.check_id, "")] for each in notebook.exercises)
            earned = sum(each.points for each in done)
            print(f"{notebook.name:<28} {marks:<8} {earned:>2} of {notebook.points} points")
        following = following or next((each for each in notebook.exercises if each not in done), None)
    if following:
        print(
            f"Next: exercises/{following.notebook}.ipynb, “{following.title}” (about {following.minutes} minutes)."
        )
    else:
        print("Every exercise is done. What is left is lessons/08_interview_review.ipynb.")
    return 0


_MARKS = {"passed": "✓", "failed": "✗", "not_started": "○", "": "○"}
