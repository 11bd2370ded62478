"""The notebooks work for an nbgrader class as they are, and their markers are otter's too.

nbgrader is used in tests only: it is the judge of our metadata.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator

from helpers.authoring import BEGIN, END

ROOT = Path(__file__).parent.parent
SOLUTIONS = sorted(ROOT.glob("solutions/*.ipynb"))
ALL = [*SOLUTIONS, *sorted(ROOT.glob("exercises/*.ipynb"))]
# nbgrader calls alembic by name, so the environment's commands must be on the path.
ENVIRONMENT = os.environ | {
    "COURSE_PROGRESS": "off",
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}
OTTER_BEGIN = re.compile(r"^\s*# BEGIN SOLUTION( NO PROMPT)?$")


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_metadata_is_valid_by_nbgraders_own_validator(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    MetadataValidator().validate_nb(notebook)
    graded = [
        cell.metadata.nbgrader for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")
    ]
    assert graded, "a notebook without graded cells is no exercise"
    ids = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert len(ids) == len(set(ids))


def test_the_validator_refuses_a_broken_notebook() -> None:
    """Planted failure: a graded cell without points."""
    notebook = nbformat.read(SOLUTIONS[0], as_version=4)
    check = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade"))
    del check.metadata.nbgrader["points"]
    with pytest.raises(Exception, match="points"):
        MetadataValidator().validate_nb(notebook)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_markers_are_otters_too(path: Path) -> None:
    lines = [line for cell in nbformat.read(path, as_version=4).cells for line in cell.source.split("\n")]
    ours = [line for line in lines if BEGIN.match(line)]
    assert ours and all(OTTER_BEGIN.match(line) for line in ours)
    assert len(ours) == sum(bool(END.match(line)) for line in lines)


def nbgrader(folder: Path, *arguments: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.stem for path in SOLUTIONS])
def test_nbgrader_gives_the_solution_full_marks_and_the_stub_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'course'\n")
    source = tmp_path / "source" / name
    source.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / f"{name}.ipynb", source)
    nbgrader(tmp_path, "generate_assignment", name)
    released = tmp_path / "release" / name / f"{name}.ipynb"
    for learner, notebook in (("solved", source / f"{name}.ipynb"), ("stub", released)):
        submitted = tmp_path / "submitted" / learner / name
        submitted.mkdir(parents=True)
        shutil.copy(notebook, submitted)
    nbgrader(tmp_path, "autograde", name)
    code = (
        "import json; from nbgrader.api import Gradebook\n"
        "with Gradebook('sqlite:///gradebook.db') as book:\n"
        f"    print(json.dumps({{s.student.id: [s.score, s.max_score] for s in book.assignment_submissions({name!r})}}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    scores = json.loads(shown.stdout)
    assert scores["solved"][0] == scores["solved"][1] > 0
    assert scores["stub"] == [0.0, scores["solved"][1]]
