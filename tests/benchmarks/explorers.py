"""Latency of the explorers in a real JupyterLab beside ``interactive_output`` with pyplot on the same picture.

One run, one browser: a real key press on the focused slider; the clock starts with the page's ``keydown`` event and
stops when the new picture is in the page (an image: decoded) and two animation frames have passed. Every frame in
between is looked at: a frame without the picture counts as flicker. Build time and size of state are taken in a plain
Python process. ``make bench-explorers`` runs this and writes ``docs/benchmarks/explorers.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "browser"))

from conftest import CHROMIUM_FLAGS, Lab, chromium
from playwright.sync_api import sync_playwright

from helpers.explorers.pictures import PICTURES

MOVES = 30
LIMITS = {"single ratio": 12, "several ratio": 4, "spread": 3, "build seconds": 1.5, "state MB": 1.5}

SETUP = """
import matplotlib, ipywidgets
from matplotlib import pyplot as plt
from helpers.explorers import DeltaExplorer, LossMixer
from helpers.explorers.stage import STYLE, Picture

def usual(explorer, name):
    "The same picture as most courses draw it: a new pyplot figure for each event."
    control = explorer.controls[name]
    def draw(position):
        explorer.positions[name] = position
        with matplotlib.rc_context(STYLE):
            picture = Picture(explorer.size)
            picture.figure = plt.figure(figsize=(explorer.size[0] / 72, explorer.size[1] / 72), dpi=72)
            explorer.stage(picture)
            explorer.move(picture)
            plt.show()
    slider = ipywidgets.IntSlider(explorer.positions[name], 0, len(control.options) - 1)
    return ipywidgets.VBox([slider, ipywidgets.interactive_output(draw, {"position": slider})])
"""

# name: (cell, selector of what takes the key, selector of what shows the picture)
IMAGE = ".jp-OutputArea-output img"
CASES = {
    "single value, interactive_output": ("usual(DeltaExplorer(), 'delta')", ".noUi-handle", IMAGE),
    "single value, frames drawn ahead": ("DeltaExplorer()", ".cg input[type=range]", ".cg-moving"),
    "several values, interactive_output": ("usual(LossMixer(), 'weight1')", ".noUi-handle", IMAGE),
    "several values, newest event": ("LossMixer()", ".cg input[type=range]", ".cg-moving"),
}

WATCH = """([picture]) => {
  const shown = () => [...document.querySelectorAll(picture)].filter((each) => each.getBoundingClientRect().height > 0);
  const state = { old: shown()[0]?.outerHTML, pressed: null, done: null, frames: 0, missing: 0 };
  window.watched = state;
  document.addEventListener("keydown", (event) => (state.pressed = event.timeStamp), { capture: true, once: true });
  const frame = () => {
    if (state.done !== null) return;
    state.frames += 1;
    if (!shown().length) state.missing += 1;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  const observer = new MutationObserver(async () => {
    const fresh = shown().at(-1) ?? [...document.querySelectorAll(picture)].at(-1);
    if (state.pressed === null || !fresh || fresh.outerHTML === state.old) return;
    observer.disconnect();
    if (fresh.decode) await fresh.decode();
    requestAnimationFrame(() => requestAnimationFrame(() => (state.done = performance.now())));
  });
  observer.observe(document.querySelector(".jp-Notebook"), { childList: true, subtree: true, attributes: true });
}"""


def measure(page, lab: Lab, cell: str, handle: str, picture: str) -> dict:
    """Milliseconds of each move of one case, in a notebook of its own with a kernel of its own."""
    name = lab.write("bench.ipynb", SETUP, cell)
    page.goto(f"{lab.url}/lab/tree/{name}?reset")
    page.wait_for_function(
        "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.isReady", timeout=120_000
    )
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(picture, state="attached", timeout=120_000)
    page.wait_for_timeout(1500)
    page.locator(handle).first.focus()
    times, frames, missing = [], 0, 0
    for move in range(MOVES + 2):
        page.evaluate(WATCH, [picture])
        page.keyboard.press("ArrowRight" if move % 20 < 10 else "ArrowLeft")
        page.wait_for_function("() => window.watched.done !== null", timeout=20_000)
        seen = page.evaluate("() => window.watched")
        page.wait_for_timeout(120)
        if move >= 2:  # the first two warm up fonts and caches
            times.append(seen["done"] - seen["pressed"])
            frames += seen["frames"]
            missing += seen["missing"]
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    times.sort()
    return {
        "median ms": round(statistics.median(times), 1),
        "p95 ms": round(times[int(0.95 * (len(times) - 1))], 1),
        "frames seen": frames,
        "frames without picture": missing,
    }


def builds() -> dict:
    """Seconds to build each explorer (the best of three, imports paid for) and the megabytes it sends."""
    built = {}
    for name, make in PICTURES.items():
        seconds, size = [], 0.0
        for _ in range(3):
            started = time.perf_counter()
            widget = make().widget
            seconds.append(time.perf_counter() - started)
            state = {key: getattr(widget, key) for key in widget.keys if key != "layout"}
            size = len(json.dumps(state, default=str).encode()) / 1e6
        built[name] = {"build seconds": round(min(seconds), 2), "state MB": round(size, 2)}
    return built


def judge(result: dict) -> list[str]:
    """What falls short of the limits, in words; empty when all is well."""
    faults = []
    for kind, new in (("single value", "frames drawn ahead"), ("several values", "newest event")):
        usual, ours = (result["latency"][f"{kind}, {way}"] for way in ("interactive_output", new))
        ours["times faster"] = round(usual["median ms"] / ours["median ms"], 1)
        if ours["times faster"] < LIMITS[f"{kind.split()[0]} ratio"]:
            faults.append(f"{kind}: only {ours['times faster']} times faster")
        if ours["p95 ms"] > LIMITS["spread"] * ours["median ms"]:
            faults.append(f"{kind}: p95 of {ours['p95 ms']} ms against a median of {ours['median ms']} ms")
        if ours["frames without picture"]:
            faults.append(f"{kind}: {ours['frames without picture']} frames without the picture")
    for name, built in result["builds"].items():
        faults += [f"{name}: {what} {built[what]}" for what in built if built[what] > LIMITS[what]]
    return faults


def report(result: dict) -> str:
    """The result as a Markdown page."""
    lines = [
        "# Explorers: latency, build time, size",
        "",
        "Key press on the slider until the new picture is on the page and two animation frames have passed; "
        f"{MOVES} moves each, one run, the same picture in both ways. Absolute times vary by machine; the ratios are "
        f"the point. Made by `make bench-explorers` on {result['machine']}.",
        "",
        "| how the picture is updated | median ms | p95 ms | times faster | frames without picture |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, each in result["latency"].items():
        lines.append(
            f"| {name} | {each['median ms']} | {each['p95 ms']} | {each.get('times faster', 1)} | "
            f"{each['frames without picture']} of {each['frames seen']} |"
        )
    lines += ["", "| explorer | build seconds | state MB |", "|---|--:|--:|"]
    lines += [
        f"| {name} | {each['build seconds']} | {each['state MB']} |"
        for name, each in result["builds"].items()
    ]
    limits = (
        f"Limits: {LIMITS['single ratio']} and {LIMITS['several ratio']} times faster in the median, p95 within "
        f"{LIMITS['spread']} times the median, no frame without the picture, {LIMITS['build seconds']} s and "
        f"{LIMITS['state MB']} MB to build."
    )
    faults = result["faults"]
    verdict = f"Short of the limits: {'; '.join(faults)}." if faults else "All limits hold."
    return "\n".join([*lines, "", f"{limits} {verdict}", ""])


def main(argv: list[str]) -> int:
    """Measure, write the JSON and the page beside it, and fail when a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/explorers.json"))
    out = parser.parse_args(argv).out
    result = {
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "builds": builds(),
        "latency": {},
    }
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        (Path(folder) / "course").mkdir()
        lab = Lab(Path(folder) / "course", Path(folder))
        try:
            browser = driver.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
            page = browser.new_page(viewport={"width": 1366, "height": 900})
            for name, case in CASES.items():
                result["latency"][name] = measure(page, lab, *case)
                print(f"{name}: {result['latency'][name]}", flush=True)
            browser.close()
        finally:
            lab.stop()
    result["faults"] = judge(result)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(report(result), encoding="utf-8")
    print(report(result))
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
