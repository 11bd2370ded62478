"""A real JupyterLab in a real Chromium.

``lab`` is one JupyterLab server for the session on a free loopback port, with its own settings and runtime folder.
``page`` is a fresh browser page that keeps what the console complains of. ``open_notebook`` opens a notebook, runs all
of it and waits until the kernel is idle. Pictures go to ``$ARTIFACTS`` (default: ``artifacts/``).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = Path(os.environ.get("ARTIFACTS", ROOT / "artifacts"))
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 60
RUN_MILLISECONDS = 240_000
# What JupyterLab itself writes on a healthy page: it asks the network for news and for files that need not be there.
HARMLESS = ("Failed to load resource", "was preloaded using link preload")

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def chromium() -> str | None:
    """Chromium's path: ``$CHROMIUM``, then the PATH, then Playwright's own (``None``: it finds that itself)."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Lab:
    """A running JupyterLab.

    Attributes:
        folder: what it serves; put notebooks here.
        url: its address.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self._settings = folder, home / "settings"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.set("apputils-extension/notification", fetchNews="false", checkForUpdates=False)
        self._log = (home / "lab.log").open("w+")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--expose-app-in-browser"),
                *(f"--ServerApp.root_dir={folder}", f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1"),
                *("--IdentityProvider.token=", "--ServerApp.allow_root=True", "--LabApp.news_url=None"),
            ],
            env={"OMP_NUM_THREADS": "1"}  # several of these tests share the processor
            | os.environ
            | {
                "JUPYTERLAB_SETTINGS_DIR": str(self._settings),
                "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
                "JUPYTER_CONFIG_DIR": str(home / "config"),
                "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
                "IPYTHONDIR": str(home / "ipython"),
                "COURSE_PROGRESS": "off",
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/api", timeout=2).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        self._log.seek(0)
        raise RuntimeError(f"JupyterLab did not start within {START_SECONDS} s:\n{self._log.read()[-2000:]}")

    def set(self, plugin: str, **settings: object) -> None:
        """Write user settings of one of JupyterLab's plugins; pages opened afterwards have them."""
        file = self._settings / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))

    def write(self, name: str, *cells: str) -> str:
        """Put a notebook of code cells into the folder and return its name."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, self.folder / name)
        return name

    def stop(self) -> None:
        """Stop the server, and with it its kernels."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


@pytest.fixture(scope="session")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        try:
            opened = driver.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        except playwright.Error as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(reason=f"no Chromium: set CHROMIUM or install one ({str(error).splitlines()[0]})")
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def lab(browser, tmp_path_factory) -> Iterator[Lab]:
    running = Lab(tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("home"))
    yield running
    running.stop()


@pytest.fixture
def page(browser) -> Iterator:
    """A page of laptop size; ``page.complaints`` lists errors of the page and of its console."""
    context = browser.new_context(viewport={"width": 1366, "height": 900})
    opened = context.new_page()
    opened.complaints = []
    opened.on("pageerror", lambda error: opened.complaints.append(f"page error: {error}"))
    opened.on(
        "console",
        lambda message: (
            message.type == "error"
            and not any(each in message.text for each in HARMLESS)
            and opened.complaints.append(f"console: {message.text}")
        ),
    )
    yield opened
    context.close()


@pytest.fixture
def open_notebook(lab, page) -> Callable:
    """``open_notebook(name, theme="light")`` opens a notebook of ``lab.folder``, runs all cells, and returns the page."""

    def opened(name: str, theme: str = "light"):
        lab.set("apputils-extension/themes", theme=THEMES[theme])
        page.goto(f"{lab.url}/lab/tree/{name}?reset")
        page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.isReady")
        page.set_default_timeout(RUN_MILLISECONDS)
        page.evaluate(
            """async () => {
                const app = window.jupyterapp;
                await app.commands.execute("application:toggle-left-area").catch(() => {});
                await app.shell.currentWidget.sessionContext.ready;
                await app.commands.execute("notebook:run-all-cells");
                await app.commands.execute("docmanager:save");
            }"""
        )
        page.set_default_timeout(30_000)
        return page

    return opened


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The folder for pictures that are worth a look after the run."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    return ARTIFACTS
