"""Exercises from solutions: what is cut, what is refused, and that nothing is lost."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers import authoring
from helpers.authoring import AuthoringError, cut, normalise, stamp
from helpers.course import Exercise

ROOT = Path(__file__).parent.parent
CUBE = Exercise(
    "01_a", "cube", "Cube it", ("cube",), 2, 5, 1, 1, "Heading", ("look at the power", "it is three")
)

ANSWER = "def cube(x):\n    # BEGIN SOLUTION\n    return x * x * x  # thrice\n    # END SOLUTION"


def part(source: str, role: str, markdown: bool = False):
    cell = (new_markdown_cell if markdown else new_code_cell)(source)
    cell.metadata["course"] = {"exercise": "cube", "role": role}
    return cell


def solution(answer: str = ANSWER, *extra):
    return new_notebook(
        cells=[
            part("Write `cube`.", "prompt", markdown=True),
            part("", "hints", markdown=True),
            part(answer, "answer"),
            part("assert cube(2) == 8", "check"),
            *extra,
        ]
    )


def test_stamping_is_idempotent_and_writes_the_manifest_into_the_cells() -> None:
    once = stamp(solution(), [CUBE])
    twice = stamp(deepcopy(once), [CUBE])
    assert [cell.source for cell in once.cells] == [cell.source for cell in twice.cells]
    prompt, hints, answer, check = once.cells
    assert prompt.source.startswith("## 1. Cube it\n\n*★☆☆ · about 5 minutes · 2 points")
    assert hints.source.count("<details>") == 2
    assert answer.metadata.nbgrader == {
        "schema_version": 3, "grade": False, "grade_id": "cube", "locked": False, "solution": True, "task": False,
    }  # fmt: skip
    assert check.metadata.nbgrader.points == 2
    assert check.metadata.nbgrader.grade_id == "cube-check"


@pytest.mark.parametrize("indent", ["", "    ", "\t", "            "])
def test_a_solution_is_cut_at_any_indent(indent: str) -> None:
    source = f"{indent}# BEGIN SOLUTION\n{indent}secret_number = 12345678\n{indent}# END SOLUTION"
    made = cut(solution(source), [CUBE])
    assert made.cells[2].source == f"{indent}...  # your answer: about 1 line"
    assert "12345678" not in nbformat.writes(made)


def test_outputs_are_cleared_and_the_source_notebook_is_left_alone() -> None:
    notebook = solution()
    notebook.cells[3].outputs = [nbformat.v4.new_output("stream", text="8")]
    notebook.cells[3].execution_count = 3
    made = cut(notebook, [CUBE])
    assert made.cells[3].outputs == [] and made.cells[3].execution_count is None
    assert notebook.cells[3].outputs, "the solution keeps its outputs"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("def cube(x):\n    return x**3", "0 BEGIN SOLUTION"),
        (ANSWER + "\n" + ANSWER, "2 BEGIN SOLUTION"),
        ("# BEGIN SOLUTION\nx = 1", "0 END SOLUTION"),
        ("# END SOLUTION\nx = 1\n# BEGIN SOLUTION", "stands before"),
    ],
)
def test_markers_that_do_not_pair_are_refused(answer: str, complaint: str) -> None:
    with pytest.raises(AuthoringError, match=complaint):
        cut(solution(answer), [CUBE])


def test_a_marker_outside_an_answer_cell_is_refused() -> None:
    with pytest.raises(AuthoringError, match="outside an answer cell"):
        cut(solution(ANSWER, new_code_cell("# BEGIN SOLUTION\nx = 1\n# END SOLUTION")), [CUBE])


def test_a_solution_line_that_survives_elsewhere_is_refused() -> None:
    leak = new_markdown_cell("Try this:\n\n    return x * x * x  # thrice")
    with pytest.raises(AuthoringError, match="survives"):
        cut(solution(ANSWER, leak), [CUBE])


@pytest.mark.parametrize("missing", range(4))
def test_an_exercise_with_a_missing_cell_is_refused(missing: int) -> None:
    notebook = solution()
    del notebook.cells[missing]
    with pytest.raises(AuthoringError, match=r"has 0 \w+ cells"):
        stamp(notebook, [CUBE])


def test_an_exercise_the_manifest_does_not_know_is_refused() -> None:
    with pytest.raises(AuthoringError, match="does not list"):
        stamp(solution(), [])


def test_normalising_keeps_outputs_and_drops_what_changes_from_run_to_run() -> None:
    notebook = solution()
    cell = notebook.cells[3]
    cell.metadata["execution"] = {"iopub.status.busy": "2026"}
    cell.outputs = [
        nbformat.v4.new_output(
            "display_data",
            {"text/plain": "a slider", authoring.WIDGET_VIEW: {"model_id": "f00"}},
            metadata={"x": 1},
        ),
        nbformat.v4.new_output(
            "error", ename="ValueError", evalue="no", traceback=["\x1b[31mFile somewhere\x1b[0m"]
        ),
    ]
    normalise(notebook)
    shown, error = cell.outputs
    assert shown.data == {"text/plain": "a slider"} and shown.metadata == {}
    assert error.traceback == ["ValueError: no"]
    assert "execution" not in cell.metadata
    assert len({each.id for each in notebook.cells}) == len(notebook.cells)
    before = authoring.text_of(notebook)
    assert authoring.text_of(normalise(notebook)) == before


def write_course(root: Path, source: str) -> Path:
    (root / "lessons").mkdir()
    path = root / "lessons" / "00_why_custom_gradients.ipynb"
    path.write_text(nbformat.writes(new_notebook(cells=[new_code_cell(source)])), encoding="utf-8")
    return path


def test_sync_executes_what_is_stale_and_check_turns_red_for_it(tmp_path: Path, capsys) -> None:
    path = write_course(tmp_path, "print(6 * 7)")
    assert authoring.main(["--check", "--root", str(tmp_path)]) == 1
    assert "stale" in capsys.readouterr().out
    assert authoring.main(["--root", str(tmp_path)]) == 0
    assert nbformat.read(path, 4).cells[0].outputs[0].text == "42\n"
    assert authoring.main(["--check", "--root", str(tmp_path)]) == 0
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("6 * 7", "6 * 8"), encoding="utf-8")
    assert authoring.main(["--check", "--root", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("source", "complaint"),
    [("1 / 0", "ZeroDivisionError"), ("import sys\nprint('oh', file=sys.stderr)", "stderr")],
)
def test_a_notebook_at_fault_is_named_and_not_written(
    tmp_path: Path, capsys, source: str, complaint: str
) -> None:
    path = write_course(tmp_path, source)
    before = path.read_bytes()
    assert authoring.main(["--root", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert complaint in message and path.name in message
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{", '{"cells": 3}', "\x00"])
def test_an_unreadable_notebook_is_named_with_a_cure(tmp_path: Path, capsys, content: str) -> None:
    path = write_course(tmp_path, "1")
    path.write_text(content, encoding="utf-8")
    assert authoring.main(["--root", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert path.name in message and "restore it from git" in message
    assert path.read_text(encoding="utf-8") == content


def test_a_folder_without_notebooks_is_not_a_success(tmp_path: Path, capsys) -> None:
    assert authoring.main(["--check", "--root", str(tmp_path)]) == 1
    assert "No notebook found" in capsys.readouterr().err
