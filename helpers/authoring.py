"""Exercises from solutions, and notebooks normalised for git.

``solutions/`` is the source. ``course sync`` stamps its cells with the manifest's titles, points and hints,
executes what is stale, normalises every notebook, and makes ``exercises/`` by cutting the solutions out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from .course import Course, Exercise, load

BEGIN = re.compile(r"^(\s*)# BEGIN SOLUTION\s*$")
END = re.compile(r"^\s*# END SOLUTION\s*$")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS_PER_CELL = 300
LEAK_LENGTH = 20  # shorter lines, such as `return x`, are nobody's secret

KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class AuthoringError(Exception):
    """A notebook that cannot be synchronised; the message names the file, the cell and the cure."""


# -- reading and writing ------------------------------------------------------------------------------------


def read(path: Path) -> NotebookNode:
    """Read a notebook.

    Raises:
        AuthoringError: the file is missing, is not valid JSON, or is not a notebook.
    """
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except FileNotFoundError:
        raise AuthoringError(
            f"{path}: no such notebook; see course.toml for the names there should be."
        ) from None
    except Exception as error:
        raise AuthoringError(
            f"{path}: not a readable notebook ({error.__class__.__name__}); restore it from git."
        ) from error


def text_of(notebook: NotebookNode) -> str:
    """The notebook as the one text that is stored for it."""
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n"


def code_digest(notebook: NotebookNode) -> str:
    """A digest of the code cells in order: stored outputs are stale when it differs from the one stored with them."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:16]


# -- stamping: what the manifest says about each exercise ----------------------------------------------------


def role(cell: NotebookNode) -> tuple[str, str]:
    """``(exercise, role)`` of a cell; empty strings where it has none."""
    own = cell.metadata.get("course", {})
    return own.get("exercise", ""), own.get("role", "")


def _heading(number: int, exercise: Exercise) -> str:
    stars = "★" * exercise.difficulty + "☆" * (3 - exercise.difficulty)
    worth = "starred extra" if exercise.starred else f"{exercise.points} points"
    return (
        f"## {number}. {exercise.title}\n\n"
        f"*{stars} · about {exercise.minutes} minutes · {worth} · an answer of about {exercise.lines} lines*\n\n"
    )


def _hints(exercise: Exercise) -> str:
    steps = (
        f"<details><summary>{label}</summary>\n\n{hint.strip()}\n\n</details>"
        for label, hint in zip(
            ("A first hint", "A second hint, nearer to the answer"), exercise.hints, strict=True
        )
    )
    return "\n\n".join(steps)


def stamp(notebook: NotebookNode, exercises: Sequence[Exercise]) -> NotebookNode:
    """Write titles, hints, points and nbgrader's metadata from the manifest into a solution notebook.

    Raises:
        AuthoringError: an exercise of the manifest has no prompt, answer or check cell, or one too many, or the
            notebook has an exercise that the manifest does not know.
    """
    known = {exercise.id: (number, exercise) for number, exercise in enumerate(exercises, 1)}
    seen: dict[tuple[str, str], int] = {}
    for cell in notebook.cells:
        name, part = role(cell)
        if not name:
            continue
        if name not in known:
            raise AuthoringError(f"a cell belongs to exercise {name!r}, which course.toml does not list.")
        number, exercise = known[name]
        seen[name, part] = seen.get((name, part), 0) + 1
        if part == "prompt":
            body = re.sub(r"\A## .*\n\n\*.*\*\n\n", "", cell.source)
            cell.source = _heading(number, exercise) + body
        elif part == "hints":
            cell.source = _hints(exercise)
        elif part in ("answer", "check"):
            cell.metadata["nbgrader"] = _nbgrader(exercise, is_check=part == "check")
            cell.metadata["course"] = {"exercise": name, "role": part}
            if part == "check":
                cell.metadata["course"]["own_rule"] = exercise.own_rule
                cell.metadata["course"]["answers"] = list(exercise.answers)
    for name in known:
        for part in ("prompt", "hints", "answer", "check"):
            if (count := seen.get((name, part), 0)) != 1:
                raise AuthoringError(f"exercise {name!r} has {count} {part} cells; it needs exactly one.")
    return notebook


def _nbgrader(exercise: Exercise, is_check: bool) -> dict:
    stamped = {
        "schema_version": 3,
        "grade": is_check,
        "grade_id": f"{exercise.id}-check" if is_check else exercise.id,
        "locked": is_check,
        "solution": not is_check,
        "task": False,
    }
    return stamped | ({"points": exercise.points} if is_check else {})


# -- cutting: an exercise notebook from a solution notebook ----------------------------------------------------


def cut(notebook: NotebookNode, exercises: Sequence[Exercise]) -> NotebookNode:
    """Make the learner's notebook: solutions replaced by ``...``, outputs cleared.

    Raises:
        AuthoringError: markers do not pair, an answer cell does not have exactly one marked place, a marker
            stands outside an answer cell, or a line of a solution survives elsewhere in the notebook.
    """
    by_id = {exercise.id: exercise for exercise in exercises}
    made, secrets = deepcopy(notebook), []
    for cell in made.cells:
        name, part = role(cell)
        begins, ends = (
            sum(bool(mark.match(line)) for line in cell.source.split("\n")) for mark in (BEGIN, END)
        )
        if part != "answer" and (begins or ends):
            raise AuthoringError(f"a solution marker stands outside an answer cell:\n{cell.source[:120]}")
        if part == "answer":
            if (begins, ends) != (1, 1):
                raise AuthoringError(
                    f"the answer cell of {name!r} has {begins} BEGIN SOLUTION and {ends} END SOLUTION; it needs one of each."
                )
            cell.source, secret = _cut_cell(cell.source, by_id[name].lines)
            secrets += [(name, line) for line in secret]
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    made.metadata.get("course", {}).pop("executed", None)
    _refuse_leaks(made, secrets)
    return made


def _cut_cell(source: str, size: int) -> tuple[str, list[str]]:
    kept, secret, inside = [], [], False
    for line in source.split("\n"):
        if opening := BEGIN.match(line):
            inside = True
            kept.append(f"{opening[1]}...  # your answer: about {size} line{'s' if size != 1 else ''}")
        elif END.match(line):
            inside = False
        else:
            (secret if inside else kept).append(line)
    if inside:
        raise AuthoringError(f"END SOLUTION stands before BEGIN SOLUTION:\n{source[:120]}")
    return "\n".join(kept), secret


def _refuse_leaks(made: NotebookNode, secrets: Sequence[tuple[str, str]]) -> None:
    public: dict[str, set[tuple[str, str]]] = {}
    for cell in made.cells:
        for line in cell.source.split("\n"):
            public.setdefault(line.strip(), set()).add(role(cell))
    for name, line in secrets:
        bare = line.strip()
        is_form = bare.startswith(("@", "def ", "class ", '"""', "#"))
        # What an exercise's own prompt shows, such as a Function to repair, its author shows on purpose.
        places = public.get(bare, set()) - {(name, "prompt")}
        if len(bare) >= LEAK_LENGTH and not is_form and places:
            raise AuthoringError(
                f"a line of the solution of {name!r} survives in the exercise notebook: {bare}"
            )


# -- executing and normalising -----------------------------------------------------------------------------------


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook top to bottom in a fresh kernel, in place.

    Raises:
        AuthoringError: a cell raises without saying so, or writes to stderr.
    """
    # A kernel inherits the environment: a learner's progress is not the author's, and keyed seeds are the grader's.
    os.environ["COURSE_PROGRESS"] = "off"
    os.environ.pop("COURSE_SEED", None)
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        coalesce_streams=True,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise AuthoringError(f"a cell raises: {ANSI.sub('', str(error))[-1500:]}") from error
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise AuthoringError(f"a cell writes to stderr:\n{cell.source[:200]}\n-> {output.text[:300]}")
    notebook.metadata.setdefault("course", {})["executed"] = code_digest(notebook)


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Bring a notebook to the one form that git stores: stable ids, minimal metadata, no widget views."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    own = notebook.metadata.get("course", {})
    notebook.metadata = NotebookNode(deepcopy(KERNEL) | ({"course": own} if own else {}))
    for cell in notebook.cells:
        if cell.cell_type == "code" and "NBVAL_RAISES_EXCEPTION" in cell.source:
            # JupyterLab's Run All and nbclient go on past a cell with this tag; nbval reads the comment.
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", ()), "raises-exception"})
        keep = ("course", "nbgrader", "tags", "slideshow")
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in keep if cell.metadata.get(key)})
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip("\n").split("\n"))
        for output in cell.get("outputs", ()):
            _normalise_output(output)
    _name_cells(notebook)
    return notebook


def _normalise_output(output: NotebookNode) -> None:
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]
    if "data" in output:
        output.data.pop(WIDGET_VIEW, None)
        output.metadata = NotebookNode()


def _name_cells(notebook: NotebookNode) -> None:
    """Give each cell a readable, stable id; ids that are already readable stay."""
    taken: set[str] = set()
    for cell in notebook.cells:
        wanted = cell.get("id", "")
        if not wanted or re.fullmatch(r"[0-9a-f]{8}", wanted) or wanted in taken:
            name, part = role(cell)
            words = f"{name}-{part}" if name else cell.source.lstrip("#! ")[:40]
            base = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or cell.cell_type
            wanted = next(each for each in _numbered(base[:48]) if each not in taken)
        cell.id = wanted
        taken.add(wanted)


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1


# -- the command -------------------------------------------------------------------------------------------------


def plan(root: Path, course: Course) -> Iterator[tuple[Path, Sequence[Exercise]]]:
    """Source notebooks that exist under ``root``, in the manifest's order, with the exercises each holds."""
    for notebook in course.notebooks:
        if (lesson := root / "lessons" / f"{notebook.name}.ipynb").exists():
            yield lesson, ()
        if notebook.exercises and (solution := root / "solutions" / f"{notebook.name}.ipynb").exists():
            yield solution, notebook.exercises


def sync_one(path: Path, exercises: Sequence[Exercise], check: bool, force: bool) -> list[str]:
    """Synchronise one source notebook and what is made from it; return a line for each file that differed."""
    before = path.read_text(encoding="utf-8")
    notebook = read(path)
    if exercises:
        stamp(notebook, exercises)
    stale = notebook.metadata.get("course", {}).get("executed") != code_digest(notebook)
    if check and stale:
        return [f"{path}: outputs are stale; run `course sync`"]
    normalise(notebook)  # before running too: it marks the cells that may raise
    if stale or force:
        execute(notebook, path.parent)
        normalise(notebook)
    files = {path: text_of(notebook)}
    if exercises:
        made = path.parent.parent / "exercises" / path.name
        files[made] = text_of(normalise(cut(notebook, exercises)))
    changed = []
    for file, text in files.items():
        old = before if file == path else (file.read_text(encoding="utf-8") if file.exists() else "")
        if text != old:
            changed.append(f"{file}: {'differs from its source; run `course sync`' if check else 'written'}")
            if not check:
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
    return changed


def main(argv: list[str]) -> int:
    """``course sync``: exit status 1 with ``--check`` when anything is stale, or when a notebook is at fault."""
    parser = argparse.ArgumentParser(prog="course sync", description=__doc__.split("\n")[0])
    parser.add_argument(
        "names", nargs="*", help="notebooks such as 01_registration or lessons/01_registration (default: all)"
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a notebook is stale")
    parser.add_argument("--force", action="store_true", help="execute notebooks even when they are fresh")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the course's folder")
    options = parser.parse_args(argv)
    faults, seen, changed = [], 0, []
    for path, exercises in plan(options.root, load()):
        if options.names and not any(name in path.as_posix() for name in options.names):
            continue
        seen += 1
        try:
            changed += sync_one(path, exercises, options.check, options.force)
        except AuthoringError as error:
            faults.append(f"{path}: {error}")
    for line in changed + faults:
        print(line, file=sys.stderr if line in faults else sys.stdout)
    if not seen:
        print(
            f"No notebook found under {options.root} for {options.names or 'the manifest'}.", file=sys.stderr
        )
        return 1
    print(
        f"{seen} notebooks read, {len(changed)} {'stale' if options.check else 'written'}, {len(faults)} at fault."
    )
    return 1 if faults or (options.check and changed) else 0
