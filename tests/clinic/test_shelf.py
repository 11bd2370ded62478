"""Every Function that the course exports is healthy, as a class and through its lowercase function."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import helpers.functions as shelf
from helpers.clinic import assert_healthy, diagnose
from helpers.functions.specimens import CustomHuber

from .cases.case import noise


def positive(*shape: int, seed: int = 0):
    """Return numbers above zero that require grad."""
    return (noise(*shape, seed=seed).detach().abs() + 0.1).requires_grad_()


def labels(*shape: int):
    """Return zeros and ones."""
    return (noise(*shape, seed=5).detach() > 0).double()


def contraction(z, a, b):
    """Return a step that comes to rest."""
    return torch.tanh(0.4 * a * z + b)


SAMPLES = {
    "ClipGradientNorm": lambda: (noise(4), 0.5),
    "ClipGradientValue": lambda: (noise(4), 0.5),
    "Contrastive": lambda: (noise(4, 3), noise(4, 3, seed=1), 0.5),
    "CubicSpline": lambda: (positive(4), torch.linspace(0.0, 3.0, 5).double(), noise(5, seed=1)),
    "FixedPoint": lambda: (contraction, torch.zeros(3).double(), 1e-14, 1000, noise(3), noise(3, seed=1)),
    "LinearCrossEntropy": lambda: (
        noise(4, 3),
        noise(5, 3, seed=1),
        torch.tensor([0, 4, -100, 2]),
        -100,
        True,
        2,
    ),
    "Pendulum": lambda: (torch.tensor([1.0, 0.1, 0.3]).double().requires_grad_(), 6, 0.05, "adjoint"),
    "RecomputeSwiGLU": lambda: (noise(3, 2), noise(3, 2, seed=1)),
    "SparseSolve": lambda: (
        torch.tensor([4.0, 3.0, 5.0, 1.0]).double().requires_grad_(),
        noise(3),
        torch.tensor([0, 1, 2, 0]),
        torch.tensor([0, 1, 2, 2]),
    ),
    "TiledAttention": lambda: (noise(2, 3, 2), noise(2, 4, 2, seed=1), noise(2, 4, 3, seed=2), False, 0.7),
    "Cube": lambda: (noise(3, 2),),
    "Exp": lambda: (noise(3, 2),),
    "Focal": lambda: (noise(6), labels(6), 2.0),
    "Huber": lambda: (noise(5), noise(5, seed=1), 0.7),
    "LayerNorm": lambda: (noise(3, 4), noise(4, seed=1), noise(4, seed=2), 1e-5),
    "Log1mExp": lambda: (positive(5),),
    "LogSumExp": lambda: (noise(2, 4), -1, False),
    "MatMulBias": lambda: (noise(4, 3), noise(2, 3, seed=1), noise(2, seed=2)),
    "Quantile": lambda: (noise(5), noise(5, seed=1), 0.9),
    "ReverseGradient": lambda: (noise(4), 0.5),
    "SafeNorm": lambda: (noise(2, 3), -1, False),
    "SafeSqrt": lambda: (positive(4),),
    "ScaleGradient": lambda: (noise(4), 0.1),
    "Softmax": lambda: (noise(2, 4), -1),
    "Softplus": lambda: (noise(5), 1.5),
    "StopGradient": lambda: (noise(4),),
    "StraightThroughRound": lambda: (noise(4),),
    "SurrogateStep": lambda: (noise(4), 10.0),
}
FUNCTIONS = sorted(
    name
    for name in shelf.__all__
    if isinstance(getattr(shelf, name), type) and issubclass(getattr(shelf, name), Function)
)


# Functions whose arguments are not those of their class.
CALLS = {
    "FixedPoint": lambda: (contraction, torch.zeros(3).double(), noise(3), noise(3, seed=1)),
    "LinearCrossEntropy": lambda: (noise(4, 3), noise(5, 3, seed=1), torch.tensor([0, 4, -100, 2])),
    "Pendulum": lambda: (torch.tensor([1.0, 0.1, 0.3]).double().requires_grad_(), 6, 0.05),
    "SparseSolve": lambda: tuple(SAMPLES["SparseSolve"]()[place] for place in (0, 2, 3, 1)),
}
SPELLINGS = {
    "LogSumExp": "logsumexp",
    "Log1mExp": "log1mexp",
    "MatMulBias": "matmul_bias",
    "Pendulum": "simulate",
    "RecomputeSwiGLU": "recompute_swiglu",
}


def lowercase(name: str) -> str:
    """Return the name of the function that belongs to a class."""
    spelled = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return SPELLINGS.get(name, spelled)


def single(value):
    """Return a floating tensor in single precision, and anything else as it is."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().float().requires_grad_(value.requires_grad)
    return value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_class_is_healthy(name):
    assert name in SAMPLES, f"add sample inputs for {name} to this test"
    assert_healthy(getattr(shelf, name), *SAMPLES[name]())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_is_healthy_in_single_precision(name):
    inputs = map(single, CALLS.get(name, SAMPLES[name])())
    assert_healthy(getattr(shelf, lowercase(name)), *inputs)


def test_a_pair_of_numpy_functions_is_healthy():
    product = shelf.numpy_function(lambda a, b: a * b, lambda g, _, a, b: (g * b, g * a))
    assert_healthy(product, noise(3), noise(3, seed=1))


def test_the_specimen_has_its_three_faults():
    report = diagnose(CustomHuber, noise(4), noise(4, seed=1))
    assert {"mutable-state", "missing-gradient", "saved-intermediate"} <= set(report.slugs)
