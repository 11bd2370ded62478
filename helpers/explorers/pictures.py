"""``python -m helpers.explorers.pictures``: a still of every explorer and a small picture of every lesson, for README."""

from __future__ import annotations

import argparse
import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from matplotlib.figure import Figure
from PIL import Image, ImageOps
from torch import Tensor

from ..functions import Softplus, straight_through_round, tiled_attention
from . import (
    DeltaExplorer,
    EpsilonExplorer,
    GraphStepper,
    JacobianExplorer,
    LossMixer,
    MagnitudeExplorer,
    SavedTensors,
)
from .palette import BACKWARD, CHECK, FORWARD, GROUND, MUTED
from .quiz import questions
from .saved_tensors import saved
from .stage import STILL_COLOURS, Explorer, axes, styled

FOLDER = Path("docs/images")
THUMBNAIL, EDGE = (640, 400), 12
LENGTHS = (128, 256, 512, 1024)


def _saved() -> SavedTensors:
    torch.manual_seed(0)
    x = torch.randn(64, 32, requires_grad=True)
    built = {
        "log(1 + exp(x))": lambda x: torch.log(1 + torch.exp(x)),
        "Softplus": lambda x: Softplus.apply(x, 1.0),
    }
    return SavedTensors(built, x)


def _rounding_loss(x: Tensor, target: Tensor) -> Tensor:
    return (straight_through_round(2 * x) - target) ** 2


def _stepper(mode: str) -> GraphStepper:
    x, target = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (1.3, 0.4))
    return GraphStepper(_rounding_loss, x, target, mode=mode)


PICTURES: dict[str, Callable[[], Explorer]] = {
    "delta": DeltaExplorer,
    "epsilon": EpsilonExplorer,
    "magnitude": MagnitudeExplorer,
    "loss_mixer": LossMixer,
    "saved_tensors": _saved,
    "jacobian": lambda: JacobianExplorer(
        lambda z: torch.softmax(z, 0), torch.tensor([0.5, -1.0, 2.0, 0.3], dtype=torch.float64)
    ).choose(**{"pass": 2}),
    "graph_injection": lambda: _stepper("injection"),
    "graph_substitution": lambda: _stepper("substitution"),
    "graph_verification": lambda: _stepper("verification"),
}


def _softplus_network(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return Softplus.apply(x * w + b, 1.0) ** 2


def _graph() -> bytes:
    inputs = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (1.5, 2.0, -1.0))
    return GraphStepper(_softplus_network, *inputs, mode="verification").still()


def _plain_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def _kept(attention: Callable[..., Tensor], length: int) -> float:
    """Megabytes that the graph of an attention keeps for backward alone."""
    notes = saved(attention, *torch.randn(3, 2, length, 32, requires_grad=True).unbind())
    return sum({each.memory: each.bytes for each in notes if not each.shared}.values()) / 1e6


@styled
def _attention() -> bytes:
    figure = Figure(figsize=(THUMBNAIL[0] / 72, THUMBNAIL[1] / 72), dpi=72)
    plot = axes(figure, (0.1, 0.14, 0.86, 0.74), "Attention: megabytes kept for backward")
    for attention, name, ink in (
        (_plain_attention, "plain: the scores", BACKWARD),
        (tiled_attention, "tiled: one number a row", FORWARD),
    ):
        kept = [_kept(attention, length) for length in LENGTHS]
        plot.plot(LENGTHS, kept, **ink.line, marker=ink.marker, markersize=9, label=name)
    plot.set_xlabel("length of the sequence")
    plot.set_xticks(LENGTHS)
    plot.legend()
    return _png(figure)


@styled
def _question() -> bytes:
    question = questions()[0]
    figure = Figure(figsize=(THUMBNAIL[0] / 72, THUMBNAIL[1] / 72), dpi=72)
    lines = [(line, "bold", FORWARD) for line in textwrap.wrap(question.text, 52)]
    for answer in question.answers:
        ink, mark = (CHECK, "✓") if answer.right else (MUTED, "○")
        wrapped = textwrap.wrap(answer.text, 56)
        lines += [(f"{mark if not at else '   '}  {line}", "normal", ink) for at, line in enumerate(wrapped)]
    for at, (line, weight, ink) in enumerate(lines):
        style = {"color": ink.light, "weight": weight, "fontsize": 19, "parse_math": False}
        figure.text(0.05, 0.86 - 0.09 * at, line.replace("`", ""), **style)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, dpi=108)
    return file.getvalue()


LESSONS: dict[str, Callable[[], bytes]] = {
    "00": _graph,
    "01": lambda: PICTURES["delta"]().still(),
    "02": lambda: PICTURES["saved_tensors"]().still(),
    "03": lambda: PICTURES["jacobian"]().still(),
    "04": lambda: PICTURES["magnitude"]().still(),
    "05": lambda: PICTURES["loss_mixer"]().still(),
    "06": lambda: PICTURES["epsilon"]().still(),
    "07": _attention,
    "08": _question,
}


def _thumbnail(png: bytes) -> bytes:
    """A picture of the size of all thumbnails."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        inner = (THUMBNAIL[0] - 2 * EDGE, THUMBNAIL[1] - 2 * EDGE)
        shrunk = ImageOps.pad(image.convert("RGB"), inner, Image.Resampling.LANCZOS, GROUND.light)
    padded = ImageOps.expand(shrunk, EDGE, GROUND.light)
    padded.quantize(STILL_COLOURS, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    return file.getvalue()


def draw(folder: Path) -> Iterator[Path]:
    """Write each picture into ``folder`` and yield its path."""
    torch.manual_seed(0)
    made = {f"explorers/{name}.png": lambda make=make: make().still() for name, make in PICTURES.items()}
    made |= {f"lessons/{name}.png": lambda make=make: _thumbnail(make()) for name, make in LESSONS.items()}
    for name, make in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make())
        yield path


def main(argv: list[str]) -> int:
    """Draw all pictures and name each with its size."""
    parser = argparse.ArgumentParser(prog="python -m helpers.explorers.pictures", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"folder (default: {FOLDER})")
    for path in draw(parser.parse_args(argv).out):
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
