"""Every notebook under nbval, alone in an empty folder and without a network.

Lessons and solutions are compared with their stored outputs; an exercise notebook must fail in every check cell as
long as it is not solved, and nowhere else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from helpers.course import load

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted([*ROOT.glob("lessons/*.ipynb"), *ROOT.glob("solutions/*.ipynb")])
EXERCISES = sorted(ROOT.glob("exercises/*.ipynb"))

# Hash seeds and thread counts to run under; ``make test-stability`` tries five.
SETTINGS = [
    {"PYTHONHASHSEED": str(number), "OMP_NUM_THREADS": str(1 + number % 2)}
    for number in range(5 if os.environ.get("COURSE_STABILITY") == "full" else 1)
]
MAX_LINES = 16  # of code in one cell of a lesson

NO_NETWORK = '''
import socket

_connect = socket.socket.connect

def connect(self, address):
    """A notebook of this course works offline: only this machine may be reached."""
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"no network in this test: {address}")
    return _connect(self, address)

socket.socket.connect = connect
'''


def nbval(path: Path, folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one notebook, copied into an empty folder, in a pytest of its own."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    shutil.copy(path, folder)
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "-p", "no:xdist",
               "--rootdir", str(folder), "-c", os.devnull, *options, path.name]  # fmt: skip
    settings = os.environ | {"PYTHONPATH": str(folder / "site"), "COURSE_PROGRESS": "off"} | environment
    settings.pop("COURSE_SEED", None)
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=600)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def passed(answer: subprocess.CompletedProcess[str]) -> int:
    found = re.search(r"(\d+) passed", answer.stdout)
    return int(found[1]) if found else 0


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_every_notebook_of_the_manifest_is_here() -> None:
    course = load()
    assert [path.stem for path in SOURCES if path.parent.name == "lessons"] == [
        each.name for each in course.notebooks
    ]
    with_exercises = [each.name for each in course.notebooks if each.exercises]
    assert [path.stem for path in SOURCES if path.parent.name == "solutions"] == with_exercises
    assert [path.stem for path in EXERCISES] == with_exercises


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: "seed {} threads {}".format(*each.values()))
def test_a_notebook_gives_its_stored_outputs(path: Path, setting: dict[str, str], tmp_path: Path) -> None:
    answer = nbval(path, tmp_path, "--nbval", "--nbval-cell-timeout=120", **setting)
    assert answer.returncode == 0, answer.stdout[-6000:]
    assert passed(answer) == len(code_cells(path)), "every code cell was run and compared"


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parent.name == "lessons"], ids=name_of)
def test_a_lessons_cells_are_short(path: Path) -> None:
    lines = {
        cell.id: sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in code_cells(path)[1:]
    }
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}, (
        "imports in the first cell aside"
    )


@pytest.mark.parametrize("path", EXERCISES, ids=name_of)
def test_an_unsolved_exercise_fails_in_every_check_and_nowhere_else(path: Path, tmp_path: Path) -> None:
    answer = nbval(path, tmp_path, "--nbval-lax", "--nbval-cell-timeout=120")
    cells = code_cells(path)
    checks = {
        number for number, cell in enumerate(cells) if cell.metadata.get("course", {}).get("role") == "check"
    }
    failed = {int(number) for number in re.findall(r"^FAILED \S+::Cell (\d+)", answer.stdout, re.M)}
    assert failed == checks, answer.stdout[-4000:]
    assert answer.stdout.count("Not started: ") >= len(checks)
    assert passed(answer) == len(cells) - len(checks)


def test_the_gate_turns_red_for_an_output_that_differs(tmp_path: Path) -> None:
    """Planted failure: a stored output that the cell no longer gives."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(1)")])
    notebook.cells[0].execution_count = 1
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", text="2\n")]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "planted.ipynb")
    (tmp_path / "run").mkdir()
    assert nbval(tmp_path / "planted.ipynb", tmp_path / "run", "--nbval").returncode == 1


def test_the_network_is_out_of_reach(tmp_path: Path) -> None:
    """Planted failure: a notebook that needs the network must not pass."""
    cell = nbformat.v4.new_code_cell("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=2)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "planted.ipynb")
    (tmp_path / "run").mkdir()
    answer = nbval(tmp_path / "planted.ipynb", tmp_path / "run", "--nbval-lax")
    assert answer.returncode == 1 and "no network in this test" in answer.stdout
