"""Docs and notebooks tell the truth: generated pages are fresh, links lead somewhere, form is kept."""

from __future__ import annotations

import re
import runpy
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

WIDEST = 110  # characters of a line of code in a lesson
ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(
    path for folder in ("lessons", "exercises", "solutions") for path in ROOT.glob(f"{folder}/*.ipynb")
)
LESSONS = sorted(ROOT.glob("lessons/*.ipynb"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown")


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub (words-with-dashes) and JupyterLab (Words-with-dashes) make them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.M)
    jupyter = {heading.strip().replace(" ", "-") for heading in headings}
    return jupyter | {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def broken_links(path: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`]*`", "", prose(path), flags=re.S)
    broken = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and file.suffix in (".md", ".ipynb") and anchor not in anchors(file)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


def test_the_gate_turns_red_for_a_broken_link(tmp_path: Path) -> None:
    """Planted failure: a link to a page, and one to a heading, that do not exist."""
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](nowhere.md) [b](#there) [c](#here)\n")
    assert broken_links(page) == ["nowhere.md", "#there"]


def test_the_table_of_mistakes_is_fresh() -> None:
    render = runpy.run_path(str(ROOT / "tests" / "misconceptions" / "table.py"))["render"]
    assert (ROOT / "docs" / "misconceptions.md").read_text(encoding="utf-8") == render(), "run `make docs`"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_is_small_and_its_headings_nest(path: Path) -> None:
    assert path.stat().st_size <= 1_500_000
    levels = [
        len(marks) for marks in re.findall(r"^(#+) ", re.sub(r"```.*?```", "", prose(path), flags=re.S), re.M)
    ]
    assert levels and levels[0] == 1 and levels.count(1) == 1, "one title, first"
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


@pytest.mark.parametrize("path", LESSONS, ids=name_of)
def test_a_lesson_keeps_its_form(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    assert cells[0].cell_type == "markdown" and "minutes" in cells[0].source
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert cells[1].cell_type == "code" and "import" in cells[1].source, "imports come second, all visible"
    wide = {cell.id: line for cell in code for line in cell.source.splitlines() if len(line) > WIDEST}
    assert not wide, "a line of code that does not fit beside JupyterLab's file browser"
    assert not any(cell.source.rstrip().endswith(";") or "\n%" in f"\n{cell.source}" for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    is_review = path.stem.startswith("08")
    assert is_review or any("image/png" in output.get("data", {}) for output in outputs), "a picture"
    assert all("text/plain" in output.data for output in outputs if "data" in output), (
        "every picture has a text"
    )


@pytest.mark.parametrize("path", LESSONS, ids=name_of)
def test_chance_is_seeded_where_outputs_are_compared(path: Path) -> None:
    seeded = False
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type != "code":
            continue
        seeded = seeded or "manual_seed(" in cell.source
        draws = re.search(r"\b(rand|randn|randint|randperm|\w+_like|dropout|bernoulli)\(", cell.source)
        by_chance = draws and draws[1] not in ("zeros_like", "ones_like", "empty_like", "full_like")
        assert seeded or not by_chance or "NBVAL_IGNORE_OUTPUT" in cell.source, cell.id


@pytest.mark.parametrize("path", LESSONS[:8], ids=name_of)
def test_a_lesson_has_its_parts(path: Path) -> None:
    text = prose(path)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    code = "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code")
    for part in ("What people get wrong", "Interview questions"):
        assert part in headings
    assert code.count("Quiz(") + text.count("<details>") >= 3, "at least three predictions"
    if not path.stem.startswith("00"):
        assert "NBVAL_RAISES_EXCEPTION" in code, "something breaks on screen"
    wrong = text.split("What people get wrong")[1].split("\n## ")[0]
    assert len(re.findall(r"^### ", wrong, re.M)) >= 4, "at least four misconceptions"


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=name_of)
def test_nothing_speaks_of_one_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.~])/(?:work|root|home|tmp)/\w", text)
