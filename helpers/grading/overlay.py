"""The learner's answers on the course's own notebook: only answer cells change, and only their source."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from copy import deepcopy

import nbformat
from nbformat import NotebookNode

from .submission import Pristine

MARKER = re.compile(r"^(\s*#[\s#]*)((?:NBVAL|PYTEST_VALIDATE)_\w+)\s*$", re.M)


def neutral(source: str) -> str:
    """Source in which no line is an nbval marker any more; what it does is unchanged."""
    return MARKER.sub(r"\1(\2)", source)


def overlay_answers(
    pristine: Pristine, answers: Mapping[str, str], only: Collection[str] | None = None
) -> NotebookNode:
    """Lay answers over a pristine notebook.

    Args:
        pristine: the course's notebook.
        answers: source by exercise id; an exercise without one keeps its stub.
        only: exercises to keep; the cells of others are left out, so that each can be run by itself.

    Returns:
        A new notebook of code cells. Text is left out, outputs are empty, and no cell carries a tag.
    """
    cells = []
    for cell in pristine.notebook.cells:
        own = cell.metadata.get("course", {})
        exercise, role = own.get("exercise"), own.get("role")
        if (
            cell.cell_type != "code"
            or role == "summary"
            or (only is not None and exercise and exercise not in only)
        ):
            continue
        laid = nbformat.v4.new_code_cell(cell.source)
        laid.id = cell.id
        laid.metadata["course"] = deepcopy(dict(own))
        if role == "answer" and exercise in answers:
            laid.source = neutral(answers[exercise])
        cells.append(laid)
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook
