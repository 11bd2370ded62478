"""``course lab``: JupyterLab, opened at the first lesson."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FIRST = "lessons/00_why_custom_gradients.ipynb"


def main(argv: list[str]) -> int:
    """Replace this process by JupyterLab; ``argv`` is passed on (``--no-browser``, ``--ip``, ``--port`` …)."""
    if not Path(FIRST).exists():
        print(f"course lab: there is no {FIRST} here; run it in the course's folder.", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "jupyterlab", FIRST, *argv]
    sys.stdout.flush()
    os.execv(sys.executable, command)
