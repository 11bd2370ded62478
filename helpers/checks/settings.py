"""A check runs in clean settings, whatever the notebook has done to global state, and says what it found."""

from __future__ import annotations

import builtins
import importlib
import random
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch

MODULES = {"torch": "torch", "np": "numpy", "F": "torch.nn.functional", "math": "math"}
"""Names that the course's notebooks use for these modules."""

_RIGHT_FLOATING_POINT = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _put_right(namespace: MutableMapping[str, Any]) -> list[str]:
    """Undo what would make other exercises fail; return one sentence for each thing put right."""
    notes = []
    if (dtype := torch.get_default_dtype()) != torch.float32:
        torch.set_default_dtype(torch.float32)
        notes.append(f"the default dtype was {dtype}; it is torch.float32 again.")
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)
        notes.append("gradients were switched off (torch.set_grad_enabled(False)); they are on again.")
    if torch.is_anomaly_enabled():
        torch.autograd.set_detect_anomaly(False)
        notes.append("anomaly detection was on and slows every backward; it is off again.")
    if np.geterr() != _RIGHT_FLOATING_POINT:
        np.seterr(**_RIGHT_FLOATING_POINT)
        notes.append("np.seterr had been changed; NumPy's own settings are back.")
    if any(entry[0] == "error" and entry[2] is Warning for entry in warnings.filters):
        warnings.filters[:] = [
            entry for entry in warnings.filters if not (entry[0] == "error" and entry[2] is Warning)
        ]
        warnings._filters_mutated() if hasattr(warnings, "_filters_mutated") else None
        notes.append("warnings had been turned into errors; they are warnings again.")
    for name, module in MODULES.items():
        if name in namespace and not isinstance(namespace[name], ModuleType):
            namespace[name] = importlib.import_module(module)
            notes.append(f"`{name}` had been given another value; it is the module {module} again.")
    shadowed = sorted(
        name
        for name in namespace
        if hasattr(builtins, name) and not name.startswith("_") and name not in _INTERACTIVE
    )
    for name in shadowed:
        del namespace[name]
        notes.append(f"`{name}` hid Python's own {name}; the built-in is back, so choose another name.")
    return notes


_INTERACTIVE = {"exit", "quit", "copyright", "credits", "license", "help", "open", "display", "get_ipython"}


@contextmanager
def settings_guard(namespace: MutableMapping[str, Any], seed: int) -> Iterator[list[str]]:
    """Run a check with standard global state and seeded generators; give random state back afterwards.

    Yields:
        One sentence for each piece of global state that had to be put right. It stays right: an exercise
        that changes it hurts at most itself.
    """
    notes = _put_right(namespace)
    random_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield notes
        finally:
            notes += _put_right(namespace)
            random.setstate(random_state)
            np.random.set_state(numpy_state)
