"""Right answers in every shape that learners, editors and learning platforms give them: all of them earn full points."""

from __future__ import annotations

import json
from collections.abc import Callable

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from tests.grading.conftest import GOOD, STUB, changed, earned, notebook, with_square

BOTH = {"square": 2, "cube": 2}
SQUARE = 3  # where the answer cell of the first exercise stands


def right(change: Callable[[NotebookNode], object]) -> NotebookNode:
    return changed(change, GOOD)


def square(source: str) -> NotebookNode:
    return with_square(source)


def each(change: Callable[[NotebookNode], object]) -> NotebookNode:
    return right(lambda made: [change(cell) for cell in made.cells])


def _strip(made: NotebookNode) -> None:
    for number, cell in enumerate(made.cells):
        cell.metadata, cell.id = nbformat.NotebookNode(), f"new-{number}"


def _below(made: NotebookNode) -> None:
    """Answered in a new cell below the answer cell, which keeps its stub."""
    made.cells[SQUARE].source = STUB["square"]
    made.cells.insert(SQUARE + 1, new_code_cell(GOOD["square"]))


def _split(made: NotebookNode) -> None:
    made.cells[SQUARE].source = "def square(x):\n    return _times(x, x)"
    made.cells.insert(
        SQUARE + 1, new_code_cell("def _times(a, b):\n    return a * b\n\nsquare_helper = _times")
    )
    made.cells[SQUARE].source = "def _times(a, b):\n    return a * b\n\n" + made.cells[SQUARE].source


def _run_by_the_learner(made: NotebookNode) -> None:
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[new_output("stream", text="mine")], execution_count=7)


def _colab(made: NotebookNode) -> None:
    made.metadata.update(colab={"provenance": []})
    for number, cell in enumerate(made.cells):
        cell.metadata.update(id=f"c{number}", colab={"base_uri": "x"})


def _old_format(made: NotebookNode) -> None:
    made.nbformat_minor = 4
    for cell in made.cells:
        del cell["id"]


def _twice(made: NotebookNode) -> None:
    """The answer cell was copied: a stub stays behind in the copy."""
    copy = nbformat.from_dict(made.cells[SQUARE])
    copy.source, copy.id = STUB["square"], "copy"
    made.cells.append(copy)


def _source_as_lines(made: NotebookNode) -> bytes:
    data = json.loads(nbformat.writes(made))
    for cell in data["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    return json.dumps(data).encode()


def _format_three() -> bytes:
    return nbformat.writes(nbformat.convert(notebook(GOOD), 3), version=3).encode()


VARIATIONS: dict[str, NotebookNode | bytes] = {
    "01 plain": notebook(GOOD),
    "02 metadata stripped, new cell ids": right(_strip),
    "03 an extra cell that raises, first": right(lambda made: made.cells.insert(0, new_code_cell("1 / 0"))),
    "04 an extra cell that raises, last": right(lambda made: made.cells.append(new_code_cell("1 / 0"))),
    "05 outputs in every code cell": right(_run_by_the_learner),
    "06 CRLF": nbformat.writes(each(lambda cell: cell.update(source=cell.source.replace("\n", "\r\n")))).encode(),
    "07 a warning on stderr": square("import warnings\ndef square(x):\n    warnings.warn('slow')\n    return x * x"),
    "08 writes to stderr": square("import sys\ndef square(x):\n    print('working', file=sys.stderr)\n    return x * x"),
    "09 debug prints": square("def square(x):\n    print('x is', x)\n    return x * x\nprint(square(3))"),
    "10 a trailing semicolon": square(GOOD["square"] + "\nsquare(3);"),
    "11 a last expression that shows a value": square(GOOD["square"] + "\nsquare(3)"),
    "12 a check cell deleted": right(lambda made: made.cells.pop(SQUARE + 1)),
    "13 a check cell changed": right(lambda made: made.cells[SQUARE + 1].update(source="assert False")),
    "14 another kernel's name": right(lambda made: made.metadata.kernelspec.update(name="conda-env-torch-py")),
    "15 no kernel's name": right(lambda made: made.metadata.pop("kernelspec")),
    "16 cells in reverse order": right(lambda made: made.cells.reverse()),
    "17 top-level await": square("import asyncio\nawait asyncio.sleep(0)\n" + GOOD["square"]),
    "18 a helper function": square("def times(a, b):\n    return a * b\n\ndef square(x):\n    return times(x, x)"),
    "19 a helper class": square("class Power:\n    n = 2\n    def __call__(self, x): return x ** self.n\n\nsquare = Power()"),
    "20 a lambda": square("square = lambda x: x * x"),
    "21 the learner's own nbval-skip tag": right(lambda made: made.cells[SQUARE].metadata.update(tags=["nbval-skip"])),
    "22 a skip marker in the answer": square("# NBVAL_SKIP\n" + GOOD["square"]),
    "23 tabs": square("def square(x):\n\treturn x * x"),
    "24 names that are not ASCII": square("def square(größe):\n    π = größe * größe\n    return π"),
    "25 format 4.4 without cell ids": json.dumps(right(_old_format)).encode(),
    "26 Colab's metadata": right(_colab),
    "27 VS Code's metadata": each(lambda cell: cell.metadata.update(vscode={"languageId": "python"})),
    "28 answered in a new cell below": right(_below),
    "29 a helper in a cell of its own as well": right(_split),
    "30 another formula": square("def square(x):\n    return sum(2 * k + 1 for k in range(x))"),
    "31 type hints and a docstring": square('def square(x: int) -> int:\n    """The square of ``x``."""\n    return x * x'),
    "32 line magics": square("%timeit -n1 -r1 1 + 1\n" + GOOD["square"]),
    "33 a shell line": square("!true\n" + GOOD["square"]),
    "34 a plot": square("%matplotlib inline\n" + GOOD["square"]),
    "35 the answer cell copied, the copy still a stub": right(_twice),
    "36 a byte-order mark": b"\xef\xbb\xbf" + nbformat.writes(notebook(GOOD)).encode(),
    "37 sources as lists of lines": _source_as_lines(notebook(GOOD)),
    "38 notebook format 3": _format_three(),
    "39 a check cell run twice": right(lambda made: made.cells.append(nbformat.from_dict(made.cells[SQUARE + 1] | {"id": "again"}))),
    "40 extra headings and notes": right(lambda made: made.cells.insert(SQUARE, new_markdown_cell("# My notes\n\n`square` was easy"))),
    "41 recursion": square("def square(x):\n    return 0 if x == 0 else square(x - 1) + 2 * x - 1"),
    "42 a decorator": square("import functools\n@functools.lru_cache\ndef square(x):\n    return x * x"),
    "43 the answer cell turned to raw text": right(lambda made: made.cells[SQUARE].update(cell_type="raw")),
    "44 an imported name": square("from operator import mul\ndef square(x):\n    return mul(x, x)"),
}  # fmt: skip


@pytest.mark.parametrize("submitted", VARIATIONS.values(), ids=VARIATIONS)
def test_a_right_answer_earns_full_points(submitted: NotebookNode | bytes, graded: Callable) -> None:
    row = graded(submitted)
    assert earned(row) == BOTH, (row["status"], row["message"], row["flags"], row["marks"])
    assert row["status"] in ("graded", "student_error")


def test_the_files_name_does_not_matter(graded: Callable) -> None:
    assert earned(graded(notebook(GOOD), name="powers final (1)")) == BOTH


def test_what_is_ambiguous_is_flagged(graded: Callable) -> None:
    def two(made: NotebookNode) -> None:
        copy = nbformat.from_dict(made.cells[SQUARE] | {"id": "copy"})
        made.cells.insert(SQUARE, copy)
        made.cells[SQUARE].source = "def square(x):\n    return 0"

    row = graded(right(two))
    assert earned(row) == BOTH
    assert "square: 2 answer cells; the last one was taken." in row["flags"]
    assert any("own" in flag for flag in graded(right(_below))["flags"])
