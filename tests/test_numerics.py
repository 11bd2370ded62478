"""Finite differences: orders of their errors, best steps, gaps, Jacobians."""

from __future__ import annotations

import math

import pytest
import torch

from helpers import numerics
from helpers.numerics import (
    best_step,
    central_difference,
    complex_step,
    error_curve,
    forward_difference,
    jacobian_by_columns,
    jacobian_by_rows,
    richardson,
)

ONE = torch.tensor(1.0, dtype=torch.float64)


@pytest.mark.parametrize(
    ("scheme", "order"),
    [(forward_difference, 1), (central_difference, 2), (richardson, 4), (complex_step, 2)],
)
def test_halving_the_step_divides_the_error_by_two_to_the_order(scheme, order) -> None:
    wide, narrow = (abs(float(scheme(torch.exp, ONE, eps=eps)) - math.e) for eps in (0.1, 0.05))
    assert wide / narrow == pytest.approx(2**order, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("method", "power"), [("forward", 1 / 2), ("central", 2 / 3), ("richardson", 4 / 5)])
def test_the_default_step_gives_about_the_best_error(dtype, method, power) -> None:
    estimate = float(numerics.METHODS[method](torch.exp, ONE.to(dtype)))
    round_off = torch.finfo(dtype).eps / 2
    assert abs(estimate - math.e) <= 30 * round_off**power


def test_the_complex_step_loses_nothing() -> None:
    assert float(complex_step(torch.exp, ONE)) == math.e


def test_a_direction_is_a_tensor_a_coordinate_or_ones() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    weight = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    for scheme in (forward_difference, central_difference, richardson, complex_step):
        linear = scheme(lambda z: (weight * z).sum(), x, direction=4)
        assert float(linear) == pytest.approx(4.0, abs=1e-6)
        assert float(scheme(lambda z: (weight * z).sum(), x)) == pytest.approx(15.0, abs=1e-6)
        along = scheme(lambda z: weight * z, x, direction=weight)
        torch.testing.assert_close(along, weight * weight, rtol=1e-6, atol=1e-6)


def test_x_is_left_alone_and_nothing_is_recorded() -> None:
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    before = x.detach().clone()
    assert not central_difference(lambda z: z**2, x).requires_grad
    assert torch.equal(x.detach(), before) and x.grad is None


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"x": torch.tensor([1, 2])}, TypeError, "real floating tensor, not torch.int64"),
        ({"direction": 2}, ValueError, "coordinate 2, but x has 2 numbers"),
        ({"direction": [1.0, 0.0]}, TypeError, "not list"),
        ({"direction": True}, TypeError, "not bool"),
        ({"eps": 1e-50}, ValueError, "rounds to 0 in torch.float32"),
        ({"direction": torch.ones(3)}, ValueError, "direction has shape \\(3,\\)"),
        ({"eps": 0.0}, ValueError, "eps is 0.0"),
        ({"eps": math.nan}, ValueError, "eps is nan"),
    ],
)
def test_wrong_arguments_are_named(arguments, kind, words) -> None:
    with pytest.raises(kind, match=words):
        central_difference(**{"fn": torch.sin, "x": torch.ones(2)} | arguments)


def test_the_complex_step_refuses_what_is_not_analytic() -> None:
    with pytest.raises(TypeError, match="not analytic"):
        complex_step(torch.abs, ONE)
    with pytest.raises(TypeError, match="float32 or float64"):
        complex_step(torch.exp, ONE.to(torch.bfloat16))


def test_best_steps_grow_with_the_point_and_with_the_round_off() -> None:
    assert best_step("central", torch.float64, 100.0) == pytest.approx(
        100 * best_step("central", torch.float64)
    )
    assert best_step("central", torch.float32) > best_step("central", torch.float64)
    assert best_step("central", torch.float64, 0.0) == best_step("central", torch.float64)
    with pytest.raises(ValueError, match="'complex'; allowed"):
        best_step("complex", torch.float64)


def test_the_error_of_a_central_difference_is_a_u_near_its_theory() -> None:
    curve = error_curve(torch.exp, 1.0)["central"]
    step, error = curve.best
    assert 1e-6 < step < 1e-4 and error < 1e-9
    assert curve.errors[0] > 1 and curve.errors[-1] > 0.1, "both ends are bad"
    wide = curve.steps.index(0.01)
    assert curve.errors[wide] == pytest.approx(curve.truncation[wide], rel=0.01)
    bound = [6 * (t + r) for t, r in zip(curve.truncation, curve.round_off, strict=True)]
    assert sum(e <= b for e, b in zip(curve.errors, bound, strict=True)) >= 60


def test_steps_where_the_function_fails_are_gaps_with_a_reason() -> None:
    curve = error_curve(torch.log, 0.05)["central"]
    assert curve.gaps[1.0] == "the estimate is nan" and math.isnan(curve.errors[-1])

    def picky(z: torch.Tensor) -> torch.Tensor:
        if not z.is_complex() and float(z.detach()) > 1.05:
            raise ValueError("too hot")
        return z.exp()

    curve = error_curve(picky, 1.0)["forward"]
    assert curve.gaps[0.1] == "ValueError: too hot"
    assert curve.best[1] < 1e-6


def test_a_given_derivative_is_used() -> None:
    curve = error_curve(torch.sin, 0.0, derivative=2.0, steps=[1e-3])["central"]
    assert curve.errors[0] == pytest.approx(1.0, abs=1e-6) and curve.truncation == []
    with pytest.raises(ValueError, match="no derivative"):
        error_curve(lambda z: z.detach() ** 2, 1.0)


def test_an_error_curve_names_a_wrong_argument() -> None:
    with pytest.raises(ValueError, match="methods holds 'middle'; allowed are 'forward'"):
        error_curve(torch.exp, 1.0, methods=["middle"])
    with pytest.raises(ValueError, match=r"x has shape \(2,\); it must be one number"):
        error_curve(torch.exp, torch.ones(2))


def test_rows_do_not_depend_on_grad_mode_and_are_zero_for_a_constant() -> None:
    x = torch.tensor([1.0, 3.0])
    with torch.no_grad():
        assert jacobian_by_rows(lambda z: z**2, x).tolist() == [[2.0, 0.0], [0.0, 6.0]]
    assert jacobian_by_rows(lambda z: torch.ones(1), x).tolist() == [[0.0, 0.0]]
    with pytest.raises(TypeError, match=r"not torch.int64"):
        jacobian_by_rows(lambda z: z, torch.arange(2))


def test_rows_and_columns_agree_with_the_jacobian() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)

    def fn(z: torch.Tensor) -> torch.Tensor:
        return torch.tanh(weight @ z)

    expected = torch.autograd.functional.jacobian(fn, x)
    torch.testing.assert_close(jacobian_by_rows(fn, x), expected)
    torch.testing.assert_close(jacobian_by_columns(fn, x), expected, rtol=1e-7, atol=1e-9)
    assert jacobian_by_rows(lambda z: z[:0], x).shape == (0, 4)
    assert jacobian_by_columns(lambda z: z.sum(), x[:0]).shape == (1, 0)
