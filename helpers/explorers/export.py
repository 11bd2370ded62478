"""``course export``: a lesson as one HTML file whose explorers still move, without kernel or network.

The notebook is run, and each explorer's state and its half of JavaScript are laid into the page: nothing is fetched.
Pictures whose frames were drawn ahead, and quizzes, work as in the notebook; those that ask the kernel show their
present state. Formulas are typeset by MathJax, which nbconvert's page fetches from the network if there is one; without
it they stay readable as TeX. Widgets of other packages need the network too (nbconvert's own embedding).
"""

from __future__ import annotations

import argparse
import html
import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from .stage import HERE, WIDGET_VIEW

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
SECONDS_PER_CELL = 300


class ExportError(Exception):
    """A notebook that cannot be exported; the message names the file and the cure."""


def export(path: Path) -> str:
    """Run a notebook and return it as one HTML page.

    Raises:
        ExportError: the file is missing, is not a notebook, or a cell raises.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise ExportError(f"{path}: there is no such notebook.") from None
    except Exception as error:
        raise ExportError(f"{path}: not a readable notebook ({type(error).__name__}); restore it.") from error
    run(notebook, path.parent)
    return page(notebook, title=path.stem)


def run(notebook: NotebookNode, folder: Path) -> None:
    """Run a notebook in place and keep its widgets' state in its metadata.

    Raises:
        ExportError: a cell raises without saying so.
    """
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        store_widget_state=True,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        last = str(error).strip().splitlines()[-1]
        raise ExportError(f"a cell raises, so there is nothing to export: {last}") from error


def page(notebook: NotebookNode, title: str) -> str:
    """A notebook that was run, as HTML with its explorers laid in."""
    states = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    explorers = {
        model: each["state"] for model, each in states.items() if each["model_module"] == "anywidget"
    }
    shown, foreign = {}, False
    for output in (each for cell in notebook.cells for each in cell.get("outputs", ())):
        model = output.get("data", {}).get(WIDGET_VIEW, {}).get("model_id")
        if model in explorers:
            shown[model] = explorers[model]
            output.data = NotebookNode({"text/html": _place(model, output.data)})
        foreign |= model is not None and model not in explorers
    if not foreign:
        notebook.metadata.pop("widgets", None)
    exporter = HTMLExporter(template_name="lab", require_js_url="")
    body, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title}})
    return body.replace("</body>", f"{_script(shown)}</body>") if shown else body


def _place(model: str, data: NotebookNode) -> str:
    """Where an explorer will stand; its still, or its text, for a reader without scripts."""
    text = html.escape(data.get("text/plain", ""))
    still = (
        f'<img alt="{text}" src="data:image/png;base64,{data["image/png"]}">'
        if "image/png" in data
        else f"<pre>{text}</pre>"
    )
    return f'<div data-explorer="{model}"></div><noscript>{still}</noscript>'


def _script(shown: dict[str, dict]) -> str:
    """The explorers' states, each module and style sheet once, and the few lines that bring them to life."""
    modules = sorted({state["_esm"] for state in shown.values()})
    styles = sorted({state["_css"] for state in shown.values()})
    states = {
        model: {"module": modules.index(state["_esm"])}
        | {name: value for name, value in state.items() if not name.startswith("_") and name != "layout"}
        for model, state in shown.items()
    }
    # A closing tag inside a string would end the script.
    data = json.dumps({"modules": modules, "states": states}).replace("</", "<\\/")
    alone = (HERE / "alone.js").read_text(encoding="utf-8")
    return (
        f"<style>{''.join(styles)}</style>"
        f'<script type="application/json" id="explorers">{data}</script>'
        f'<script type="module">{alone}</script>'
    )


def main(argv: list[str]) -> int:
    """``course export NOTEBOOK --out FILE.html``; exit status 1 when a notebook cannot be exported."""
    parser = argparse.ArgumentParser(prog="course export", description=__doc__.split("\n")[0])
    parser.add_argument("notebook", type=Path, help="the notebook to run and export; the file is not changed")
    parser.add_argument(
        "--out", type=Path, help="the page to write (default: the notebook's name with .html, here)"
    )
    options = parser.parse_args(argv)
    out = options.out or Path(options.notebook.stem + ".html")
    try:
        made = export(options.notebook)
    except ExportError as error:
        print(f"course export: {error}", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(made, encoding="utf-8")
    print(f"{out}: {len(made.encode()) / 1e6:.1f} MB; open it in a browser, no kernel or network is needed.")
    return 0
