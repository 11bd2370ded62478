"""The support matrix of the shelf, as a page: made from the declarations that the tests use."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from .. import functions
from .contract import Support, Surrogate, declared


def render() -> str:
    """The page as Markdown."""
    lines = [
        "# What each Function supports",
        "",
        "Made by `make docs` from the declarations on the classes; the test suite holds every Function to its row.",
        "",
        "| Function | room | double backward | vmap | jvp | compile | dtypes | saves | rule of a surrogate |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in functions.__all__:
        found = getattr(functions, name)
        if not (isinstance(found, type) and issubclass(found, torch.autograd.Function)):
            continue
        support, surrogate = declared(found, Support), declared(found, Surrogate)
        marks = [
            "yes" if support.double_backward else "refused",
            *("yes" if each else "no" for each in (support.vmap, support.jvp, support.compile)),
        ]
        dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in support.dtypes)
        rule = f"`{surrogate.rule}`".replace("|", "\\|") if surrogate else ""
        room = found.__module__.removeprefix("helpers.functions.")
        lines.append(f"| `{name}` | {room} | {' | '.join(marks)} | {dtypes} | {support.saves} | {rule} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file to write (default: standard output)")
    out = parser.parse_args().out
    if out:
        out.write_text(render(), encoding="utf-8")
    else:
        sys.stdout.write(render())
