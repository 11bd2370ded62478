"""Explorers in a real JupyterLab: keyboard, pictures and sentences, both themes, accessibility, no kernel, no network."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import tarfile
import threading

import nbformat
import pytest

from helpers.explorers import export

pytestmark = pytest.mark.browser

AXE = "axe-core@4.10.2"

IMPORTS = """
import torch
from helpers.explorers import (
    DeltaExplorer, EpsilonExplorer, GraphStepper, JacobianExplorer, LossMixer, MagnitudeExplorer, Question, Quiz,
    SavedTensors, SelfTest,
)
from helpers.functions import Softplus, straight_through_round
x = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
s, t = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (1.3, 0.4))

def rounded(s, t):
    return (straight_through_round(2 * s) - t) ** 2

def broad(s, t):
    return torch.stack([straight_through_round(s * k + t / k).sin() for k in range(1, 5)]).sum()
"""
QUIZ = """
Quiz(
    Question("What is `ctx`?", [("A dictionary", False, "It has attributes."), ("The node", True, "The graph node itself.")],
             explanation="apply makes one per call."),
    Question("What may be saved?", [("Inputs", True), ("Outputs", True), ("Weather", False, "Not a tensor.")]),
)
"""
TEST = """
SelfTest([Question(f"{n} and 1 make?", [(str(n + 1), True), (str(n), False)], lesson=f"0{n}_sums") for n in range(3)])
"""
FRAMES = {
    "delta": "DeltaExplorer()",
    "epsilon": "EpsilonExplorer()",
    "magnitude": "MagnitudeExplorer()",
    "jacobian": "JacobianExplorer(lambda z: z.softmax(0), torch.tensor([0.5, -1.0, 2.0, 0.3]).double())",
    "saved_tensors": "SavedTensors({'operators': lambda x: x * x.sigmoid(), 'Softplus': lambda x: Softplus.apply(x, 1.0)}, x)",
    "injection": "GraphStepper(rounded, s, t)",
    "substitution": "GraphStepper(rounded, s, t, mode='substitution')",
    "verification": "GraphStepper(rounded, s, t, mode='verification')",
    "wide": "GraphStepper(broad, s, t, mode='substitution')",
}
STEPPERS = ("injection", "substitution", "verification", "wide")  # start at their last step
KERNEL = {"loss_mixer": "LossMixer()"}
QUIZZES = {"quiz": QUIZ, "self_test": TEST}
EVERYTHING = FRAMES | KERNEL | QUIZZES


def explorer(page, name: str):
    """The explorer in the output of the cell that makes it."""
    return page.locator(".cg").nth(list(EVERYTHING).index(name))


def seen(shown) -> tuple[str, str]:
    """The moving picture and the sentence."""
    return shown.locator(".cg-moving").inner_html(), shown.locator(".cg-caption").inner_text()


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    """axe-core's JavaScript, from npm."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    try:
        if npm is None:
            raise FileNotFoundError("npm is not installed")
        subprocess.run(
            [npm, "pack", "--silent", AXE], cwd=folder, check=True, timeout=60, capture_output=True
        )
    except (FileNotFoundError, subprocess.SubprocessError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(reason=f"axe-core could not be fetched: {error}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


def violations(page, axe: str) -> list[str]:
    """Serious and critical findings of axe-core inside explorers."""
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run({ include: ['.cg'] })).violations")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_axe_finds_a_planted_fault(page, axe):
    page.set_content("<main><div class='cg'><input type='range'></div></main>")
    assert any("label" in each for each in violations(page, axe))


def test_in_jupyterlab(lab, page, open_notebook, axe, artifacts):
    open_notebook(lab.write("explorers.ipynb", IMPORTS, *EVERYTHING.values()))
    page.wait_for_function(f"document.querySelectorAll('.cg').length === {len(EVERYTHING)}")

    for name in FRAMES | KERNEL:
        shown = explorer(page, name)
        for control in shown.locator("input[type=range]").all():
            before = seen(shown)
            control.focus()
            page.keyboard.press("Home" if name in STEPPERS else "ArrowRight")
            page.wait_for_function(
                "([caption, old]) => caption.innerText !== old",
                arg=[shown.locator(".cg-caption").element_handle(), before[1]],
            )
            assert seen(shown)[0] != before[0], name
            assert (
                control.get_attribute("aria-valuetext")
                == shown.locator(f"output[for={control.get_attribute('id')}]").inner_text()
            )
        for group in shown.locator("fieldset").all():
            before = seen(shown)
            group.locator("input:checked").focus()
            page.keyboard.press("ArrowDown")
            page.wait_for_function(
                "([caption, old]) => caption.innerText !== old",
                arg=[shown.locator(".cg-caption").element_handle(), before[1]],
            )
            assert seen(shown)[0] != before[0], name

    ids = page.eval_on_selector_all(".cg-title, .cg input", "all => all.map((each) => each.id)")
    assert len(ids) == len(set(ids))
    check_play(page)
    check_stepper(page)
    check_wide(page)
    check_quiz(page)
    check_self_test(page)

    for name in ("injection", "substitution", "wide"):
        explorer(page, name).locator("input[type=range]").press("End")
    page.set_viewport_size({"width": 1366, "height": 1900})  # for screenshots of whole explorers
    for theme in ("Light", "Dark"):
        page.evaluate(
            f"window.jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {theme}' }})"
        )
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
        for name in EVERYTHING:
            explorer(page, name).scroll_into_view_if_needed()
            explorer(page, name).screenshot(path=artifacts / f"explorer_{name}_{theme.lower()}.png")
        assert violations(page, axe) == []

    assert page.complaints == []
    check_without_kernel(page)


def check_play(page) -> None:
    shown = explorer(page, "jacobian")
    shown.locator("input[type=range]").focus()
    page.keyboard.press("Home")
    shown.get_by_role("button", name="Next").press("Enter")
    assert shown.locator("input[type=range]").input_value() == "1"
    shown.get_by_role("button", name="Back").press("Enter")
    assert shown.locator("input[type=range]").input_value() == "0"
    shown.get_by_role("button", name="Play").press("Space")
    page.wait_for_function(
        "(slider) => slider.value === '2'", arg=shown.locator("input[type=range]").element_handle()
    )
    shown.get_by_role("button", name="Pause").press("Space")
    stopped = shown.locator("input[type=range]").input_value()
    page.wait_for_timeout(1500)
    assert shown.locator("input[type=range]").input_value() == stopped


def check_stepper(page) -> None:
    """Step, scrub, keyboard, and play to the end."""
    shown = explorer(page, "injection")
    caption, slider = shown.locator(".cg-caption"), shown.locator("input[type=range]")
    slider.press("Home")
    assert caption.inner_text().startswith("Ready: 7 nodes, 14 steps. StraightThroughRound is custom.")
    assert "10.4" not in shown.locator(".cg-moving").text_content()
    shown.get_by_role("button", name="Next").press("Enter")
    assert caption.inner_text().startswith("Step 1 of 14, forward: s is given, 1.3.")
    slider.fill("12")
    assert "injects its own gradient" in caption.inner_text()
    slider.press("ArrowLeft")
    assert caption.inner_text().startswith("Step 11 of 14, backward: t collects")
    slider.fill("13")
    shown.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function(
        "(node) => node.innerText.startsWith('All 14 steps done.')", arg=caption.element_handle()
    )
    assert "10.4" in shown.locator(".cg-moving").text_content()


def check_wide(page) -> None:
    """A picture wider than the panel keeps its size and is scrolled, with the keyboard too."""
    page.set_viewport_size({"width": 900, "height": 900})
    shown = explorer(page, "wide")
    shown.scroll_into_view_if_needed()
    picture = shown.locator(".cg-picture")
    width = int(shown.locator("svg").get_attribute("width"))
    assert width > 1000
    assert shown.locator("svg").evaluate("(svg) => svg.getBoundingClientRect().width") == pytest.approx(width)
    assert picture.evaluate("(node) => node.scrollWidth > node.clientWidth")
    picture.press("ArrowRight")
    page.wait_for_function("(node) => node.scrollLeft > 0", arg=picture.element_handle())
    page.set_viewport_size({"width": 1366, "height": 900})


def check_quiz(page) -> None:
    quiz = explorer(page, "quiz")
    assert "The graph node itself" not in quiz.inner_text()
    quiz.get_by_label("A dictionary").focus()
    page.keyboard.press("Space")
    assert "Not quite." in quiz.inner_text()
    assert "It has attributes." in quiz.inner_text()
    page.keyboard.press("ArrowDown")
    assert "Right." in quiz.inner_text()
    for label in ("Inputs", "Outputs"):
        quiz.get_by_label(label).press("Space")
    quiz.get_by_role("button", name="Check").press("Enter")
    assert quiz.inner_text().count("Right.") == 2
    assert "2 of 2 answered" in quiz.inner_text()
    assert quiz.get_by_label("The node").is_checked()


def check_self_test(page) -> None:
    test = explorer(page, "self_test")
    for question in test.locator("fieldset").all():
        number = int(question.locator("legend").inner_text().split(". ")[1].split()[0])
        answer = question.locator("label", has_text=re.compile(rf"^{number + (number != 2)}$"))
        answer.locator("input").press("Space")
    test.get_by_role("button", name="Mark my answers").press("Enter")
    assert "2 of 3 right." in test.inner_text()
    assert "Worth another look: 02_sums" in test.inner_text()


def check_without_kernel(page) -> None:
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    shown = explorer(page, "delta")
    before = seen(shown)
    shown.locator("input[type=range]").press("ArrowLeft")
    assert seen(shown)[0] != before[0]
    assert seen(shown)[1] != before[1]


@pytest.fixture
def served(tmp_path):
    """A folder, and the loopback address that serves it."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_static_export_moves_without_kernel_and_network(served, page, axe, artifacts):
    folder, address = served
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in (IMPORTS, *EVERYTHING.values())]
    )
    nbformat.write(notebook, folder / "lesson.ipynb")
    before_export = (folder / "lesson.ipynb").read_bytes()
    assert export.main([str(folder / "lesson.ipynb"), "--out", str(folder / "lesson.html")]) == 0
    assert (folder / "lesson.ipynb").read_bytes() == before_export

    page.context.route(
        lambda url: not url.startswith((address, "blob:", "file:")), lambda route: route.abort()
    )
    for place in (f"{address}/lesson.html", (folder / "lesson.html").as_uri()):
        page.goto(place, wait_until="domcontentloaded")
        page.wait_for_function(f"document.querySelectorAll('.cg').length === {len(EVERYTHING)}")
        for name in FRAMES:
            shown = explorer(page, name)
            before = seen(shown)
            control = shown.locator("input[type=range], input:checked").first
            control.press("Home" if name in STEPPERS else "ArrowRight")
            after = seen(shown)
            assert after[0] != before[0], name
            assert after[1] != before[1], name
        assert explorer(page, "loss_mixer").locator("input:disabled").count() > 0
        assert "running kernel" in explorer(page, "loss_mixer").inner_text()
        check_stepper(page)
        check_wide(page)
        check_quiz(page)
    check_self_test(page)
    assert violations(page, axe) == []
    page.screenshot(path=artifacts / "static_export.png")
    assert [each for each in page.complaints if "ERR_FAILED" not in each] == []


def test_export_names_what_is_wrong(tmp_path, capsys):
    assert export.main([str(tmp_path / "none.ipynb")]) == 1
    assert "there is no such notebook" in capsys.readouterr().err
    (tmp_path / "torn.ipynb").write_text('{"cells": [')
    assert export.main([str(tmp_path / "torn.ipynb")]) == 1
    assert "not a readable notebook" in capsys.readouterr().err
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(notebook, tmp_path / "raises.ipynb")
    assert export.main([str(tmp_path / "raises.ipynb"), "--out", str(tmp_path / "out.html")]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
