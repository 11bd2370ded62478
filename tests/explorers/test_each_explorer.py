"""Each explorer's own numbers, and what it says to wrong use."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from helpers.explorers import (
    DeltaExplorer,
    EpsilonExplorer,
    JacobianExplorer,
    LossMixer,
    MagnitudeExplorer,
    SavedTensors,
)
from helpers.explorers.epsilon import digits
from helpers.explorers.magnitude import PAIRS, Pair
from helpers.explorers.saved_tensors import saved


class TestDelta:
    def test_numbers_follow_the_formula(self):
        explorer = DeltaExplorer(delta=1.0, residual=2.5)
        assert explorer.numbers == pytest.approx((2.0, 1.0))
        assert explorer.choose(delta=3.0).numbers == pytest.approx((2.5**2 / 2, 2.5))

    def test_sentence_says_on_which_side_of_the_border(self):
        assert "beyond the border" in DeltaExplorer(delta=1.0).describe()
        assert "within the border" in DeltaExplorer(delta=3.0).describe()

    @pytest.mark.parametrize("wrong", [{"delta": 0}, {"delta": 9}, {"residual": 5}])
    def test_out_of_range_is_refused(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DeltaExplorer(**wrong)


class TestEpsilon:
    def test_errors_of_exp_at_one(self):
        explorer = EpsilonExplorer(torch.exp, 1.0, eps=1e-3)
        assert explorer.exact == pytest.approx(math.e, rel=1e-15)
        assert explorer.error("central") == pytest.approx(1e-6 / 6, rel=0.02)
        assert explorer.error("forward") == pytest.approx(5e-4, rel=0.02)
        step, _ = explorer.curves["central"].best
        assert 1e-7 < step < 1e-4

    def test_one_bad_step_is_a_named_gap(self):
        def picky(x):
            if x.item() == 1.0 + 1e-3:
                raise ArithmeticError("not this one")
            return x.exp()

        explorer = EpsilonExplorer(picky, 1.0, eps=1e-3)
        assert math.isnan(explorer.error("forward"))
        assert "forward difference has no value (ArithmeticError: not this one)" in explorer.describe()
        explorer.choose(eps=1e-2)
        assert "forward difference has relative error" in explorer.describe()
        assert explorer.still()

    def test_nan_at_a_step_is_a_named_gap(self):
        explorer = EpsilonExplorer(torch.sqrt, 0.5, eps=1.0)
        assert "nan" in explorer.describe()
        assert math.isnan(explorer.error("central"))

    def test_a_function_that_knows_one_point_only(self):
        def lonely(x):
            if x.real != 1.0:
                raise ArithmeticError("only at 1")
            return x.real.exp()

        explorer = EpsilonExplorer(lonely, 1.0)
        assert "central difference has no value (ArithmeticError: only at 1)" in explorer.describe()
        assert "no step" in explorer.describe()
        assert explorer.widget and explorer.still()

    def test_a_function_without_complex_numbers_has_no_complex_step(self):
        explorer = EpsilonExplorer(lambda x: torch.special.i0(x), 1.0)
        assert len(explorer.curves["complex"].gaps) == len(explorer.curves["complex"].steps)
        assert "complex step has no value" in explorer.describe()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"dtype": torch.float16}, "dtype"),
            ({"eps": 0}, "eps"),
            ({"fn": lambda x: torch.stack([x, x])}, "one number"),
            ({"fn": lambda x: x.detach()}, "derivative"),
            ({"fn": torch.sqrt, "x": 0.0}, "another point"),
        ],
    )
    def test_wrong_use_speaks(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            EpsilonExplorer(**arguments)

    @pytest.mark.parametrize(
        ("value", "exact", "parts"),
        [
            (3.14162, 3.14159, ("3.141", "62")),
            (3.14159, 3.14159, ("3.14159", "")),
            (31.4159, 3.14159, ("", "3.14159·10^1")),
            (-3.1, 3.1, ("", "-3.10000")),
            (0.0, 2.0, ("", "0.00000")),
        ],
    )
    def test_digits_are_right_up_to_the_first_wrong_one(self, value, exact, parts):
        assert digits(value, exact, places=5) == parts


class TestMagnitude:
    def test_softplus_overflows_only_when_naive(self):
        explorer = MagnitudeExplorer("softplus", magnitude=1000.0, dtype=torch.float32)
        readings = explorer.now
        at = -1
        assert readings["naive"].value[at] == math.inf
        assert math.isnan(readings["naive"].gradient[at])
        assert readings["stable"].value[at] == 1e4
        assert readings["stable"].gradient[at] == 1
        assert explorer.regions("value", torch.float32)["overflow"][at]
        assert not explorer.regions("value", torch.float64)["overflow"][:40].any()
        assert "naive gives inf with gradient nan" in explorer.describe()

    def test_norm_underflows_in_half_precision(self):
        explorer = MagnitudeExplorer("norm", magnitude=1e-5, dtype=torch.float16)
        assert explorer.regions("value", torch.float16)["underflow"].any()

    @pytest.mark.parametrize("name", PAIRS)
    def test_stable_versions_stay_accurate_where_the_dtype_can(self, name):
        errors = MagnitudeExplorer(name).readings[torch.float64]["stable"].value_error
        assert np.nanmax(errors) < 1e-12

    def test_a_function_of_ones_own_that_raises_is_named(self):
        def raises(m):
            if m > 10:
                raise OverflowError("too much for me")
            return m.exp()

        explorer = MagnitudeExplorer(Pair("exp(m)", raises, torch.exp), magnitude=100.0)
        assert "naive raised OverflowError: too much for me" in explorer.describe()
        assert explorer.still()

    @pytest.mark.parametrize("wrong", [{"pair": "sine"}, {"magnitude": 1e9}, {"dtype": torch.int32}])
    def test_wrong_use_speaks(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            MagnitudeExplorer(**wrong)


class TestLossMixer:
    def test_the_trunk_gets_the_weighted_sum(self):
        explorer = LossMixer().choose(weight1=0.5, weight2=1.5)
        one, two, total = explorer.gradients
        torch.testing.assert_close(one + two, total)
        single = LossMixer().gradients[0]
        torch.testing.assert_close(one, 0.5 * single)

    def test_stop_gradient_silences_one_loss(self):
        explorer = LossMixer().choose(stop="before loss 2")
        one, two, total = explorer.gradients
        assert two.abs().max() == 0
        torch.testing.assert_close(one, total)
        assert math.isnan(explorer.angle)
        assert "one voice only" in explorer.describe()

    def test_angle_of_perpendicular_losses(self):
        explorer = LossMixer(lambda s: s[0] * 2, lambda s: s[1] * 3)
        assert explorer.angle == pytest.approx(90)

    def test_the_kernel_draws_the_newest_state(self):
        explorer = LossMixer()
        before = explorer.widget.picture
        explorer.widget.positions = [3, 10, 4, 0]
        assert explorer["weight1"] == pytest.approx(0.3)
        assert explorer.widget.picture != before
        assert explorer.widget.caption == explorer.describe()

    def test_a_loss_that_raises_in_the_middle_of_a_drag_is_named(self):
        def picky(shared):
            if shared[0] > 1:
                raise ArithmeticError("too far")
            return shared.square().sum()

        explorer = LossMixer(picky)
        before = explorer.widget.picture
        explorer.widget.positions = [10, 10, 18, 0]
        assert explorer.widget.caption == (
            "At shared parameters (2.26, 1.78) loss 1 raised ArithmeticError: too far. The trunk gets no gradient."
        )
        assert "no gradient here" in explorer.widget.picture
        assert explorer.widget.picture != before
        assert "nan" not in explorer.widget.picture
        assert math.isfinite(explorer.gradients[1].sum())
        assert explorer.still()
        explorer.widget.positions = [10, 10, 9, 0]
        assert explorer.widget.picture == before

    def test_a_gradient_that_is_not_finite_is_named(self):
        explorer = LossMixer(lambda s: s[0].sqrt() + s.sum())
        assert "loss 1 has the gradient (nan, 1)" in explorer.describe()
        assert math.isnan(explorer.angle)
        assert explorer.verdict[0] == "no gradient here"
        assert explorer.still()

    def test_wrong_use_speaks(self):
        with pytest.raises(ValueError, match="loss 2"):
            LossMixer(second=lambda s: s)
        with pytest.raises(ValueError, match="path"):
            LossMixer(path=((0, 0, 0), (1, 1, 1)))


class Leaky(torch.autograd.Function):
    """Keeps a tensor on ctx, where autograd does not look."""

    @staticmethod
    def forward(ctx, x):
        ctx.square = x * x
        ctx.save_for_backward(x)
        return x * ctx.square

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad_output


class TestSavedTensors:
    def test_counts_bytes_and_whose_they_are(self):
        x = torch.ones(5, 3, requires_grad=True)
        notes = saved(lambda x: x * x.sigmoid(), x)
        assert sum(each.bytes for each in notes) == 3 * 60
        assert sorted(each.what for each in notes) == ["input 0", "intermediate", "intermediate"]
        assert all(each.freed for each in notes)

    def test_what_lies_on_ctx_outlives_backward(self):
        explorer = SavedTensors(Leaky.apply, torch.ones(4, requires_grad=True))
        assert explorer.bytes == (32, 16)
        explorer.choose(moment="after backward")
        assert explorer.bytes == (16, 16)
        assert "attribute square" in explorer.describe()

    def test_parameters_are_shared(self):
        layer = torch.nn.Linear(3, 2)
        notes = saved(layer, torch.ones(4, 3, requires_grad=True))
        assert {each.what: each.shared for each in notes} == {"input 0": True, "parameter": True}

    def test_more_tensors_than_rows(self):
        def deep(x):
            for _ in range(15):
                x = x.exp()
            return x

        explorer = SavedTensors(deep, torch.zeros(2, requires_grad=True))
        assert len(explorer.kept) == 15
        assert explorer.still()

    def test_wrong_use_speaks(self):
        with pytest.raises(ValueError, match="requires_grad"):
            SavedTensors(torch.exp, torch.ones(2))
        with pytest.raises(ValueError, match="no graph"):
            SavedTensors(lambda x: x.detach(), torch.ones(2, requires_grad=True))
        with pytest.raises(ValueError, match="empty"):
            SavedTensors({})


class TestJacobian:
    def test_rows_and_vjp(self):
        x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
        explorer = JacobianExplorer(lambda z: torch.stack([z.sum(), (z * z).sum()]), x)
        torch.testing.assert_close(explorer.jacobian, torch.stack([torch.ones_like(x), 2 * x]))
        for row in range(2):
            torch.testing.assert_close(explorer.choose(**{"pass": row}).vjp, explorer.jacobian[row])
        explorer.choose(**{"pass": 2})
        torch.testing.assert_close(explorer.vjp, explorer.upstream @ explorer.jacobian)
        assert "without J ever being built" in explorer.describe()

    def test_numbers_that_are_not_finite_are_shown(self):
        x = torch.tensor([0.0, 1.0], dtype=torch.float64)
        explorer = JacobianExplorer(lambda z: torch.stack([z.sqrt().sum(), z.sum()]), x)
        assert "(inf, 0.50)" in explorer.describe()
        assert "NaN" in explorer.choose(**{"pass": 1}).describe()
        assert "NaN" in "".join(explorer.widget.parts)
        assert explorer.still()

    def test_wrong_use_speaks(self):
        with pytest.raises(ValueError, match="allowed"):
            JacobianExplorer(torch.exp, torch.zeros(9))
        with pytest.raises(ValueError, match="upstream"):
            JacobianExplorer(torch.exp, torch.zeros(3), torch.ones(2))
