"""The battery through planted faults: each gate turns red for the fault it is there for, and stays green otherwise."""

from __future__ import annotations

import pytest

from tests.functions import battery, sick
from tests.functions.battery import CHECKS, Case

PLANTED = [
    (battery.check_gradient, sick.WrongFactor, "Jacobian mismatch"),
    (battery.check_gradient, sick.ForgetsUpstream, "Jacobian mismatch"),
    (battery.check_gradient, sick.BreaksItsRule, "not close"),
    (battery.check_gradient, sick.IsNoSurrogate, "is no surrogate"),
    (battery.check_second_derivative, sick.SavesIntermediate, "Jacobian mismatch"),
    (battery.check_second_derivative, sick.Unrefused, "does not refuse"),
    (battery.check_second_derivative, sick.RuleHoldsOnce, "not close"),
    (battery.check_value, sick.WrongFactor, "not close"),
    (battery.check_layouts, sick.AssumesContiguous, "not close"),
    (battery.check_layouts, sick.AssumesContiguousInput, "not close"),
    (battery.check_subsets, sick.SwapsGradients, "not close"),
    (battery.check_dtypes, sick.Promotes, "float32 in, torch.float64 out"),
    (battery.check_dtypes, sick.CoarseGradient, "not close"),
    (battery.check_small_shapes, sick.NeedsAnElement, "numel"),
    (battery.check_small_shapes, sick.Flattens, "shape"),
    (battery.check_nothing_changed, sick.OverwritesUpstream, "was changed"),
    (battery.check_nothing_changed, sick.OverwritesInput, "was changed"),
    (battery.check_nothing_changed, sick.Random, "differs"),
    (battery.check_memory, sick.KeepsOutput, "tensors on ctx"),
    (battery.check_memory, sick.KeepsInputInAList, "tensors on ctx"),
    (battery.check_memory, sick.KeepsItself, "reference cycle"),
    (battery.check_transforms, sick.Unmapped, "does not have vmap support"),
    (battery.check_transforms, sick.MixesTheBatch, "not close"),
    (battery.check_transforms, sick.WrongTangent, "not close"),
    (battery.check_transforms, sick.UndeclaredTangent, "not close"),
    (battery.check_transforms, sick.BreaksTheGraph, "(?i)unsupported|graph break|data-dependent"),
]


def _case(function: type) -> Case:
    if function is sick.SwapsGradients:
        return Case(function, lambda a, b: function.apply(a, b), ((2, 3), (2, 3)))
    return Case(function, lambda x: function.apply(x), ((2, 3),), lambda x: x**2, elementwise=True)


@pytest.mark.parametrize(
    ("check", "function", "symptom"), PLANTED, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_planted_fault_is_caught(check, function: type, symptom: str) -> None:
    with pytest.raises((AssertionError, RuntimeError), match=symptom):
        check(_case(function))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_healthy_function_passes(check) -> None:
    check(_case(sick.Healthy))


def test_every_gate_has_a_planted_fault() -> None:
    assert {check for check, _, _ in PLANTED} == set(CHECKS)
