"""The graph stepper in a real JupyterLab: keyboard, play, both themes, and text that can be read."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

IMPORTS = """
import torch
from helpers.explorers import GraphStepper
from helpers.functions import reverse_gradient, straight_through_round
from helpers.functions.specimens import CustomHuber

x = torch.tensor([0.3, -2.0, 1.5], dtype=torch.float64, requires_grad=True)
target = torch.zeros(3, dtype=torch.float64)
s = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
features = torch.randn(2, 3)

def huber(x, target):
    return CustomHuber.apply(x, target).mean()

def rounded(x):
    return (straight_through_round(x * 1.7) - 3) ** 2

def domain(features):
    return reverse_gradient(net(features), 1.0).sigmoid().mean()
"""
STEPPERS = {
    "injection": "GraphStepper(huber, x, target)",
    "substitution": "GraphStepper(rounded, s, mode='substitution')",
    "verification": "GraphStepper(huber, x, target, mode='verification')",
    "network": "GraphStepper(domain, features)",
    "block": "GraphStepper(huber, x, target, mode='substitution')",
}

# Font size on the screen, pairs of texts that lie on each other, and texts outside the picture.
READABLE = """(svg) => {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim());
    const boxes = texts.map((each) => [each.textContent, each.getBoundingClientRect()]);
    const frame = svg.getBoundingClientRect();
    const sizes = texts.map((each) => parseFloat(getComputedStyle(each).fontSize) * scale);
    const overlaps = [], outside = [];
    boxes.forEach(([one, a], at) => {
        if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 1) outside.push(one);
        boxes.slice(at + 1).forEach(([other, b]) => {
            const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (width > 1 && height > 4) overlaps.push([one, other]);
        });
    });
    return { smallest: Math.min(...sizes), overlaps, outside };
}"""


def stepper(page, name: str):
    """The stepper of that name, scrolled into view (cells out of view are not rendered)."""
    shown = page.locator(".cg").nth(list(STEPPERS).index(name))
    shown.scroll_into_view_if_needed()
    return shown


def press(page, shown, key: str) -> str:
    """Press a key on the first slider; returns the new caption."""
    caption = shown.locator(".cg-caption")
    before = caption.inner_text()
    shown.locator("input[type=range]").first.focus()
    page.keyboard.press(key)
    page.wait_for_function("([node, old]) => node.innerText !== old", arg=[caption.element_handle(), before])
    return caption.inner_text()


def test_in_jupyterlab(lab, page, open_notebook, artifacts):
    open_notebook(lab.write("steppers.ipynb", IMPORTS, *STEPPERS.values()))
    page.wait_for_function(f"document.querySelectorAll('.cg').length === {len(STEPPERS)}")
    page.set_viewport_size({"width": 1366, "height": 1400})

    shown = stepper(page, "injection")
    assert press(page, shown, "Home").startswith("Ready: 5 nodes, 9 steps. CustomHuber is custom.")
    assert press(page, shown, "ArrowRight").startswith("Step 1 of 9, forward: x is given")
    for _ in range(7):
        caption = press(page, shown, "ArrowRight")
    assert "injects its own gradient" in caption
    assert shown.locator(".cg-caption").get_attribute("aria-live") == "polite"
    assert caption in shown.locator("svg").get_attribute("aria-label")
    shown.screenshot(path=artifacts / "stepper_injecting.png")

    shown.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "(node) => node.innerText.startsWith('All 9 steps done.')",
        arg=shown.locator(".cg-caption").element_handle(),
    )
    shown.get_by_role("button", name="Back").click()
    assert shown.locator(".cg-caption").inner_text().startswith("Step 9 of 9, backward: x collects")

    shown = stepper(page, "verification")
    assert "agree" in shown.locator(".cg-caption").inner_text()
    assert press(page, shown, "Home").startswith("x[0] nudged by ±1.0e−01")
    assert press(page, shown, "ArrowRight").startswith("x[0] nudged by ±3.2e−02")
    shown.get_by_label("x[2]").check()
    assert shown.locator(".cg-caption").inner_text().startswith("x[2] nudged by ±3.2e−02")

    for theme in ("Light", "Dark"):
        page.evaluate(
            f"window.jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {theme}' }})"
        )
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
        for name in STEPPERS:
            shown = stepper(page, name)
            shown.screenshot(path=artifacts / f"stepper_{name}_{theme.lower()}.png")
            found = shown.locator("svg").evaluate(READABLE)
            assert found["smallest"] >= 11.9, name
            assert found["overlaps"] == [], name
            assert found["outside"] == [], name
    assert page.complaints == []
