"""Latency of the explorers in a real JupyterLab beside ``interactive_output`` with pyplot on the same picture.

One run, one browser: a real key press on the focused slider; the clock starts with the page's ``keydown`` event and
stops when the new picture is in the page (an image: decoded) and two animation frames have passed; the time of the
frames is noted too, for no picture can be shown in less. Every frame in between is looked at: a frame without the
picture counts as flicker. Build time and size of state are taken in a plain Python process. ``make bench-explorers`` runs this
and writes ``docs/benchmarks/explorers.json`` and the page beside it.
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

import torch
from conftest import CHROMIUM_FLAGS, Lab, chromium
from playwright.sync_api import sync_playwright

from helpers.explorers import GraphStepper
from helpers.explorers.pictures import PICTURES
from helpers.functions import softplus, straight_through_round

MOVES = 30
SPREAD = 3  # p95 over median
BUILD = {"build seconds": 1.5, "state MB": 1.5}

SETUP = """
import matplotlib, ipywidgets
from matplotlib import pyplot as plt
from helpers.explorers.pictures import PICTURES
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

# kind: (how many times faster it must be, the explorer, the control that is moved)
KINDS = {
    "single value": (12, "PICTURES['delta']()", "delta"),
    "graph stepper": (12, "PICTURES['graph_injection']().choose(step=0)", "step"),
    "several values": (4, "PICTURES['loss_mixer']()", "weight1"),
}
# way: (cell, selector of what takes the key, selector of what shows the picture)
WAYS = {
    "interactive_output": ("usual({explorer}, '{control}')", ".noUi-handle", ".jp-OutputArea-output img"),
    "explorer": ("{explorer}", ".cg input[type=range]", ".cg-moving"),
}
# (name, kind, way, how many controls take turns)
CASES = [
    *((f"{kind}, {way}", kind, way, 1) for kind in KINDS for way in WAYS),
    ("several values, explorer, another control each time", "several values", "explorer", 2),
]

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
    state.there = performance.now();
    requestAnimationFrame(() => requestAnimationFrame(() => (state.done = performance.now())));
  });
  observer.observe(document.querySelector(".jp-Notebook"), { childList: true, subtree: true, attributes: true });
}"""


def measure(page, lab: Lab, cell: str, handle: str, picture: str, handles: int) -> dict:
    """Milliseconds of each move of one case, in a notebook of its own with a kernel of its own."""
    name = lab.write("bench.ipynb", SETUP, cell)
    page.goto(f"{lab.url}/lab/tree/{name}?reset")
    page.wait_for_function(
        "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.isReady", timeout=120_000
    )
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(picture, state="attached", timeout=120_000)
    page.wait_for_timeout(1500)
    times, waits, frames, missing = [], [], 0, 0
    for move in range(MOVES + 2):
        if move < handles or handles > 1:
            page.locator(handle).nth(move % handles).focus()
        page.evaluate(WATCH, [picture])
        page.keyboard.press("ArrowRight" if move // handles % 20 < 10 else "ArrowLeft")
        page.wait_for_function("() => window.watched.done !== null", timeout=20_000)
        seen = page.evaluate("() => window.watched")
        page.wait_for_timeout(120)
        if move >= 2:  # the first two warm up fonts and caches
            times.append(seen["done"] - seen["pressed"])
            waits.append(seen["done"] - seen["there"])
            frames += seen["frames"]
            missing += seen["missing"]
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    times.sort()
    return {
        "median ms": round(statistics.median(times), 1),
        "p95 ms": round(times[int(0.95 * (len(times) - 1))], 1),
        "two frames ms": round(statistics.median(waits), 1),
        "frames seen": frames,
        "frames without picture": missing,
    }


def deep(x: torch.Tensor) -> torch.Tensor:
    """A graph of 53 nodes, 20 of them custom."""
    for step in range(10):
        x = straight_through_round(softplus(x) * 1.3 + 0.1 * step).sin()
    return x.sum()


def large() -> GraphStepper:
    """The substitution of a graph close to the recorder's limit: the largest picture there is."""
    return GraphStepper(deep, torch.tensor([0.3, -2.0, 1.5], requires_grad=True), mode="substitution")


def builds() -> dict:
    """Seconds to build each explorer (the best of three, imports paid for) and the megabytes it sends."""
    built = {}
    for name, make in (PICTURES | {"graph_substitution, 53 nodes": large}).items():
        seconds, size = [], 0.0
        for _ in range(3):
            started = time.perf_counter()
            widget = make().widget
            seconds.append(time.perf_counter() - started)
            state = {key: getattr(widget, key) for key in widget.keys if key != "layout"}
            size = len(json.dumps(state, default=str).encode()) / 1e6
        built[name] = {"build seconds": round(min(seconds), 2), "state MB": round(size, 2)}
    return built


def judge(result: dict) -> list[dict]:
    """Each bar: what it asks, what was measured, and whether it held."""
    bars = []
    for kind, (ratio, _, _) in KINDS.items():
        usual, ours = (result["latency"][f"{kind}, {way}"] for way in WAYS)
        faster, spread = usual["median ms"] / ours["median ms"], ours["p95 ms"] / ours["median ms"]
        missing = ours["frames without picture"]
        needed, floor, measured = usual["median ms"] / ratio, ours["two frames ms"], f"{faster:.1f} times"
        if needed < floor:
            measured += f" (it asks for {needed:.1f} ms, and the two frames alone take {floor} ms)"
        work = [max(each["median ms"] - each["two frames ms"], 1) for each in (usual, ours)]
        measured += f"; without the two frames {work[0] / work[1]:.0f} times"
        bars += [
            bar(f"{kind}: at least {ratio} times faster in the median", measured, faster >= ratio),
            bar(f"{kind}: p95 within {SPREAD} times the median", f"{spread:.1f} times", spread <= SPREAD),
            bar(f"{kind}: no frame without the picture", f"{missing} frames", not missing),
        ]
    for what, limit in BUILD.items():
        worst = max(result["builds"], key=lambda name, what=what: result["builds"][name][what])
        most = result["builds"][worst][what]
        bars.append(bar(f"every explorer: {what} at most {limit}", f"{most}, {worst}", most <= limit))
    return bars


def bar(asked: str, measured: str, held: bool) -> dict:
    """One row of the verdict."""
    return {"bar": asked, "measured": measured, "held": held}


def report(result: dict) -> str:
    """The result as a Markdown page."""
    fell = [each["bar"] for each in result["bars"] if not each["held"]]
    lines = [
        "# Explorers: latency, build time, size",
        "",
        "Key press on the slider until the new picture is on the page and two animation frames have passed; "
        f"{MOVES} moves each, one run, the same picture in both ways. Absolute times vary by machine; the ratios are "
        "the point. No picture can be on the screen in less than the two frames (17 to 33 ms at 60 Hz), so that ratios are "
        "small where the usual way is quick. An explorer of several values draws ahead where the control that moved can go "
        "on; with another control each time, every move asks the kernel. "
        f"Made by `make bench-explorers` on {result['machine']}.",
        "",
        f"**{len(fell)} of {len(result['bars'])} bars fell.**" if fell else "**All bars held.**",
        "",
        "| bar | measured | held |",
        "|---|---|---|",
        *(
            f"| {each['bar']} | {each['measured']} | {'yes' if each['held'] else '**no**'} |"
            for each in result["bars"]
        ),
        "",
        "| how the picture is updated | median ms | p95 ms | of it two frames | frames without picture |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, each in result["latency"].items():
        lines.append(
            f"| {name} | {each['median ms']} | {each['p95 ms']} | {each['two frames ms']} | "
            f"{each['frames without picture']} of {each['frames seen']} |"
        )
    lines += ["", "| explorer | build seconds | state MB |", "|---|--:|--:|"]
    lines += [
        f"| {name} | {each['build seconds']} | {each['state MB']} |"
        for name, each in result["builds"].items()
    ]
    return "\n".join([*lines, ""])


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
            for name, kind, way, handles in CASES:
                (_, explorer, control), (cell, *places) = KINDS[kind], WAYS[way]
                cell = cell.format(explorer=explorer, control=control)
                result["latency"][name] = measure(page, lab, cell, *places, handles)
                print(f"{name}: {result['latency'][name]}", flush=True)
            browser.close()
        finally:
            lab.stop()
    result["bars"] = judge(result)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(report(result), encoding="utf-8")
    print(report(result))
    return 0 if all(each["held"] for each in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
