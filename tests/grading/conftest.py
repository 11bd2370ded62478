"""A tiny course to grade: two exercises, checks in the notebook itself, no torch, so that a run takes two seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.grading import key as keys
from helpers.grading.classroom import Job, grade
from helpers.grading.runner import Limits
from helpers.grading.submission import pristine

NAME = "01_powers"
SEED = 4711
# The numbers each seed draws, for attacks that know the visible ones.
SEEN = {0: [2, 5, 9], SEED: [7, 11, 23]}

CHECK = """
import json, os
from IPython.display import display

seed = int(os.environ.get("COURSE_SEED", "0"))
numbers = {seen}[seed]
facts = [dict(name=f"fact {{k}}", kind="tensor", dtype="int64", shape=[], values=[{name}(x)], rtol=1e-5, atol=1e-8)
         for k, x in enumerate(numbers)]
right = all({name}(x) == x ** {power} for x in numbers)
record = dict(schema=1, check="01_powers/{name}", seed=seed, status="passed" if right else "failed",
              hint=None if right else "wrong-power", message=None, facts=facts)
display({{"application/vnd.course.check+json": record, "text/plain": record["status"]}}, raw=True)
assert right, "not the right power"
"""

GOOD = {"square": "def square(x):\n    return x * x", "cube": "def cube(x):\n    return x * x * x"}
WRONG = {"square": "def square(x):\n    return x + x", "cube": "def cube(x):\n    return x"}
STUB = {name: f"def {name}(x):\n    ...  # your answer: about 1 line" for name in GOOD}


def _tagged(cell: NotebookNode, exercise: str, role: str, **more: object) -> NotebookNode:
    cell.metadata["course"] = {"exercise": exercise, "role": role} | more
    if role in ("answer", "check"):
        grade_id = exercise if role == "answer" else f"{exercise}-check"
        cell.metadata["nbgrader"] = {"schema_version": 3, "grade": role == "check", "grade_id": grade_id, "locked": role == "check",
                                     "solution": role == "answer", "task": False}  # fmt: skip
        if role == "check":
            cell.metadata["nbgrader"]["points"] = 2
    cell.id = f"{exercise}-{role}"
    return cell


def notebook(answers: dict[str, str]) -> NotebookNode:
    """The exercise notebook with these answers in it."""
    cells = [new_markdown_cell("# Powers"), new_code_cell("import math")]
    for power, name in enumerate(GOOD, 2):
        cells.append(_tagged(new_markdown_cell(f"## {power - 1}. A {name}"), name, "prompt"))
        cells.append(_tagged(new_code_cell(answers[name]), name, "answer"))
        check = CHECK.format(seen=SEEN, name=name, power=power).strip()
        cells.append(_tagged(new_code_cell(check), name, "check", own_rule=True, answers=[name]))
    made = new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a course with exercises and solutions."""
    root = tmp_path_factory.mktemp("course")
    for folder, answers in (("exercises", STUB), ("solutions", GOOD)):
        (root / folder).mkdir()
        nbformat.write(notebook(answers), root / folder / f"{NAME}.ipynb")
    return root


@pytest.fixture(scope="session")
def references(course: Path) -> dict:
    here = pristine(course / "exercises" / f"{NAME}.ipynb")
    return {NAME: keys.reference(here, course / "solutions" / f"{NAME}.ipynb", SEED)}


LIMITS = Limits(cell=4, wall=45, memory=3 * 2**30)


@pytest.fixture
def graded(course: Path, references: dict, tmp_path: Path) -> Callable[..., dict]:
    """Grade one notebook (or raw bytes) against the key and return its row."""

    def run(submitted: NotebookNode | bytes, name: str = NAME, limits: Limits = LIMITS) -> dict:
        path = tmp_path / f"{name}.ipynb"
        data = (
            submitted
            if isinstance(submitted, bytes)
            else nbformat.writes(submitted).encode("utf-8", "surrogatepass")
        )
        path.write_bytes(data)
        row = grade(Job("ada", "ada", str(path), "", str(course / "exercises"), references, SEED, limits))
        json.dumps(row)
        return row

    return run


def earned(row: dict) -> dict[str, float]:
    return {each["exercise"]: each["earned"] for each in row["marks"]}


def with_square(source: str, cube: str = GOOD["cube"]) -> NotebookNode:
    """A submission whose square is ``source``."""
    return notebook({"square": source, "cube": cube})


def changed(change: Callable[[NotebookNode], object], answers: dict[str, str] = WRONG) -> NotebookNode:
    """A submission with its notebook changed by ``change``."""
    made = deepcopy(notebook(answers))
    change(made)
    return made
