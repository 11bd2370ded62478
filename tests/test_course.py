"""The manifest: what it says is complete, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from helpers.course import load

ROOT = Path(__file__).parent.parent


def test_notebooks_come_in_order() -> None:
    names = [notebook.name for notebook in load().notebooks]
    assert names == sorted(names)
    assert [name[:2] for name in names] == [f"{number:02d}" for number in range(9)]


def test_at_least_thirty_five_exercises_are_graded() -> None:
    graded = [exercise for exercise in load().exercises() if not exercise.starred]
    assert len(graded) >= 35
    assert len({exercise.check_id for exercise in load().exercises()}) == len(list(load().exercises()))


@pytest.mark.parametrize("exercise", list(load().exercises()), ids=lambda exercise: exercise.check_id)
def test_an_exercise_says_what_a_learner_needs(exercise) -> None:
    assert exercise.title and exercise.answers and exercise.minutes > 0 and exercise.lines > 0
    assert exercise.difficulty in (1, 2, 3)
    first, second = exercise.hints
    assert len(first) > 20 and len(second) > 20 and first != second, "two real steps of help"


@pytest.mark.parametrize(
    "notebook", [each for each in load().notebooks if each.exercises], ids=lambda notebook: notebook.name
)
def test_exercises_stand_in_the_manifests_order_numbered_and_easy_ones_first(notebook) -> None:
    solution = nbformat.read(ROOT / "solutions" / f"{notebook.name}.ipynb", as_version=4)
    headings = [cell.source.partition("\n")[0] for cell in solution.cells if re.match(r"## \d", cell.source)]
    assert headings == [f"## {n}. {each.title}" for n, each in enumerate(notebook.exercises, 1)]
    assert sorted(notebook.exercises, key=lambda each: each.difficulty) == list(notebook.exercises)


@pytest.mark.parametrize("exercise", list(load().exercises()), ids=lambda exercise: exercise.check_id)
def test_the_heading_a_hint_points_to_exists_in_the_lesson(exercise) -> None:
    lesson = nbformat.read(ROOT / "lessons" / f"{exercise.notebook}.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in lesson.cells if cell.cell_type == "markdown")
    headings = {each.strip() for each in re.findall(r"^#+ (.+)$", text, re.M)}
    assert exercise.see in headings


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(KeyError, match="01_registration"):
        load().notebook("01_registrations")
    with pytest.raises(KeyError, match="no exercise"):
        load().exercise("01_registration/cubes")


def test_an_exercise_without_its_two_hints_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "course.toml"
    manifest.write_text(
        'title = "t"\n[[notebook]]\nname = "01_a"\ntitle = "A"\nminutes = 1\n'
        '[[notebook.exercise]]\nid = "x"\ntitle = "X"\nanswers = ["x"]\npoints = 1\nminutes = 1\n'
        'difficulty = 1\nlines = 1\nsee = "s"\nhints = ["only one"]\n'
    )
    with pytest.raises(ValueError, match="two steps"):
        load(manifest)
