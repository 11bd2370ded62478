"""Pictures to play with. Each is shown as the last expression of a cell.

They are imported when first asked for: a notebook that only quizzes does not wait for torch.
"""

from __future__ import annotations

import importlib

_PLACES = {
    "DeltaExplorer": "delta",
    "EpsilonExplorer": "epsilon",
    "GraphStepper": "graph_stepper",
    "JacobianExplorer": "jacobian",
    "LossMixer": "loss_mixer",
    "MagnitudeExplorer": "magnitude",
    "Question": "quiz",
    "Quiz": "quiz",
    "SavedTensors": "saved_tensors",
    "SelfTest": "quiz",
}

__all__ = list(_PLACES)


def __getattr__(name: str):
    if name not in _PLACES:
        raise AttributeError(f"helpers.explorers has no {name!r}; it has {', '.join(_PLACES)}.")
    return getattr(importlib.import_module(f"helpers.explorers.{_PLACES[name]}"), name)
