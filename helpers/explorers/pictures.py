"""``python -m helpers.explorers.pictures``: the stills of every explorer, for README and docs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from helpers.explorers import (
    DeltaExplorer,
    EpsilonExplorer,
    JacobianExplorer,
    LossMixer,
    MagnitudeExplorer,
    SavedTensors,
)
from helpers.explorers.stage import Explorer
from helpers.functions import Softplus

FOLDER = Path("docs/images/explorers")


def _saved() -> SavedTensors:
    torch.manual_seed(0)
    x = torch.randn(64, 32, requires_grad=True)
    built = {
        "log(1 + exp(x))": lambda x: torch.log(1 + torch.exp(x)),
        "Softplus": lambda x: Softplus.apply(x, 1.0),
    }
    return SavedTensors(built, x)


PICTURES: dict[str, Callable[[], Explorer]] = {
    "delta": DeltaExplorer,
    "epsilon": EpsilonExplorer,
    "magnitude": MagnitudeExplorer,
    "loss_mixer": LossMixer,
    "saved_tensors": _saved,
    "jacobian": lambda: JacobianExplorer(
        lambda z: torch.softmax(z, 0), torch.tensor([0.5, -1.0, 2.0, 0.3], dtype=torch.float64)
    ).choose(**{"pass": 2}),
}


def draw(folder: Path) -> Iterator[Path]:
    """Write each picture into ``folder`` and yield its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PICTURES.items():
        path = folder / f"{name}.png"
        path.write_bytes(make().still())
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
