"""Every lesson opened and run whole in a real JupyterLab, with a picture of it kept."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import nbformat
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(ROOT.glob("lessons/*.ipynb"))


NOT_RUN = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .filter(cell => cell.type === "code" && cell.executionCount === null)
    .map(cell => cell.id)"""
ALL_RUN = f"() => ({NOT_RUN})().length === 0"
# From the model: the page holds only the cells near the place that is looked at.
RAISED = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .filter(cell => cell.type === "code")
    .flatMap(cell => cell.outputs.toJSON().map(output => [cell.sharedModel.getSource(), output]))
    .filter(([source, output]) => output.output_type === "error")
    .map(([source, output]) => [source, output.traceback.join("\\n")])"""


@pytest.mark.browser
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs_whole_without_a_complaint(path: Path, lab, page, open_notebook, artifacts) -> None:
    shutil.copy(path, lab.folder)
    open_notebook(path.name)
    # JupyterLab calls a run finished at the first cell that raises, and goes on all the same.
    with contextlib.suppress(playwright.TimeoutError):
        page.wait_for_function(ALL_RUN, timeout=300_000)
    page.screenshot(path=artifacts / f"lesson-{path.stem}.png")
    # What was raised comes first: a cell that raises unasked keeps those after it from running.
    raised = page.evaluate(RAISED)
    unasked = [traceback for source, traceback in raised if "NBVAL_RAISES_EXCEPTION" not in source]
    assert not unasked, "\n\n".join(unasked)
    assert page.evaluate(NOT_RUN) == [], "cells that Run All did not reach"
    assert page.complaints == [], page.complaints
    assert page.get_by_text("Error displaying widget").count() == 0


@pytest.mark.browser
def test_the_slider_of_lesson_01_moves_picture_and_sentence(lab, page, open_notebook, artifacts) -> None:
    path = ROOT / "lessons" / "01_registration.ipynb"
    shutil.copy(path, lab.folder)
    open_notebook(path.name)
    explorer = next(
        k
        for k, cell in enumerate(nbformat.read(path, as_version=4).cells)
        if cell.source.startswith("DeltaExplorer")
    )
    page.evaluate(
        "place => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = place }", explorer
    )
    page.evaluate(
        "place => window.jupyterapp.shell.currentWidget.content.scrollToItem(place, 'center')", explorer
    )
    slider = page.locator(".jp-Notebook input[type=range]").first
    slider.scroll_into_view_if_needed()
    picture, sentence = page.locator(".cg-moving").first, page.locator(".cg-caption").first
    before = picture.inner_html(), sentence.inner_text()
    slider.press("ArrowRight")
    page.wait_for_function(
        "([shown, old]) => shown.innerText !== old", arg=[sentence.element_handle(), before[1]]
    )
    assert picture.inner_html() != before[0]
    page.screenshot(path=artifacts / "lesson-01-slider.png")
