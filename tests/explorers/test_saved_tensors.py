"""What the SavedTensors explorer counts."""

from __future__ import annotations

import torch

from helpers.explorers import SavedTensors


def test_a_tensor_that_two_nodes_keep_counts_once() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    assert SavedTensors(lambda t: t * t.sigmoid(), x).bytes == (256, 128)
