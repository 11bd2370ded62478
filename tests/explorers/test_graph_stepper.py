"""The three modes of the graph stepper, without a browser."""

from __future__ import annotations

import base64
import io
import json
import re
import time

import matplotlib.image
import pytest
import torch

from helpers.explorers import GraphStepper
from helpers.explorers.palette import BACKWARD, CHECK, CUSTOM, FORWARD, GROUND, MUTED, TEXT
from helpers.functions import reverse_gradient, softplus, straight_through_round
from helpers.functions.specimens import CustomHuber
from helpers.numerics import central_difference


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def vector() -> torch.Tensor:
    return torch.tensor([0.3, -2.0, 1.5], dtype=torch.float64, requires_grad=True)


def huber(x, target):
    return CustomHuber.apply(x, target).mean()


def rounded(x):
    return (straight_through_round(x * 1.7) - 3) ** 2


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s + x * s * (1 - s))


torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
features = torch.randn(2, 3)


def domain(features):
    return reverse_gradient(network(features), 1.0).sigmoid().mean()


def deep(x):
    for k in range(10):
        x = straight_through_round(softplus(x) * 1.3 + 0.1 * k).sin()
    return x.sum()


def injection() -> GraphStepper:
    return GraphStepper(huber, vector(), torch.zeros(3).double())


def substitution() -> GraphStepper:
    return GraphStepper(rounded, number(1.3), mode="substitution")


def verification() -> GraphStepper:
    return GraphStepper(huber, vector(), torch.zeros(3).double(), mode="verification")


EVERY = {
    "injection": injection,
    "substitution": substitution,
    "verification": verification,
    "network": lambda: GraphStepper(domain, features),
    "network, substitution": lambda: GraphStepper(domain, features, mode="substitution"),
    "fifty nodes, substitution": lambda: GraphStepper(deep, vector(), mode="substitution"),
    "network, verification": lambda: GraphStepper(domain, features, mode="verification"),
}


@pytest.fixture(scope="module", params=EVERY)
def stepper(request) -> GraphStepper:
    return EVERY[request.param]()


def test_building_is_quick_and_small():
    injection().widget  # noqa: B018 - imports and fonts are paid for once
    for make in EVERY.values():
        started = time.process_time()
        widget = make().widget
        state = {name: getattr(widget, name) for name in widget.keys if name != "layout"}
        assert len(json.dumps(state, default=str)) <= 1_500_000
        assert time.process_time() - started <= 3.0  # 1.5 s alone; a busy machine gets twice that


def test_output_is_stable(stepper):
    bundle = stepper._repr_mimebundle_()
    assert bundle["text/plain"] == stepper.describe()
    still = base64.b64decode(bundle["image/png"])
    assert still == stepper.still()
    assert matplotlib.image.imread(io.BytesIO(still)).std() > 0.02
    assert len(still) < 300_000


def test_same_function_same_words():
    assert injection().describe() == injection().describe()
    assert injection().widget.frames == injection().widget.frames


def test_each_state_has_its_own_picture_and_sentence(stepper):
    widget = stepper.widget
    assert len(set(widget.captions.values())) == len(widget.captions)
    assert len(set(map(str, widget.frames.values()))) == len(widget.frames)


def test_only_the_palette_and_no_small_text(stepper):
    svg = stepper.widget.base + "".join(stepper.widget.parts)
    assert not re.findall(r"#[0-9a-f]{6}", svg)
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:[^;]*? )?([\d.]+)px", svg)]
    assert sizes and min(sizes) >= 12


def test_text_on_lit_nodes_keeps_its_contrast():
    from helpers.explorers.graph_stepper.drawing import TINT, TINT_NOW
    from tests.explorers.test_palette import contrast

    def blended(ink, theme: str, share: float) -> str:
        pairs = zip(*(bytes.fromhex(getattr(each, theme)[1:]) for each in (ink, GROUND)), strict=True)
        return "#" + "".join(f"{round(share * top + (1 - share) * below):02x}" for top, below in pairs)

    for theme in ("light", "dark"):
        for tint in (FORWARD, BACKWARD, CUSTOM, CHECK):
            for text in (TEXT, MUTED, CUSTOM):
                assert contrast(getattr(text, theme), blended(tint, theme, TINT_NOW)) >= 4.5
            assert contrast(getattr(CUSTOM, theme), blended(tint, theme, TINT)) >= 4.5
        assert contrast(getattr(BACKWARD, theme), blended(BACKWARD, theme, TINT_NOW)) >= 4.5


class TestInjection:
    def test_steps_are_the_recorded_events(self):
        stepper = injection()
        events = stepper.recording.events
        assert len(stepper.controls["step"].options) == len(events) + 2
        assert stepper["step"] == len(events) + 1
        for step, event in enumerate(events, 1):
            words = stepper.choose(step=step).describe()
            assert words == f"Step {step} of 9, {event.phase}: {stepper.recording.sentence(event)}"
        assert stepper.choose(step=0).describe().startswith("Ready: 5 nodes")

    def test_the_end_tells_all(self):
        assert injection().describe() == (
            "All 9 steps done. Forward gave output = 0.8483; backward brought the gradients: "
            "x has (0.1, −0.3333, 0.3333). CustomHuber injected its own gradient."
        )

    def test_numbers_appear_when_they_exist(self):
        widget = injection().widget

        def shown(step: int) -> str:
            return " ".join(re.sub(r"<[^>]+>", " ", widget.parts[part]) for part in widget.frames[str(step)])

        assert "0.045" not in shown(2) and "0.045" in shown(3)
        assert "◆" not in shown(7) and "◆ 0.1 −0.33 0.33" in shown(8)
        assert "grad" not in shown(8) and "grad 0.1 −0.33 0.33" in shown(9)

    def test_a_learners_function_with_odd_names(self):
        class My_Function_With_A_Very_Long_Name_Indeed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad_output):
                return None

        fn = My_Function_With_A_Very_Long_Name_Indeed.apply
        stepper = GraphStepper(fn, vector(), names=["$x_1$ & <y>"])
        assert "sends nothing to $x_1$ & <y>" in stepper.choose(step=5).describe()
        assert "&lt;y&gt;" in stepper.widget.base
        assert stepper.still()

    def test_values_that_are_not_finite(self):
        stepper = GraphStepper(lambda x: x.log().sqrt(), number(0.0))
        assert "NaN" in stepper.describe()
        assert stepper.still()

    def test_the_table_is_the_recording(self):
        stepper = injection()
        assert stepper.table == stepper.recording.table()


class TestSubstitution:
    def test_local_derivative_replaced(self):
        stepper = substitution()
        (replaced,) = stepper.replaced
        assert replaced.text == "local derivative 0 replaced by 1"
        assert (replaced.node, replaced.source) == ("StraightThroughRound", "mul")
        assert "x: 0 by default, −3.4 by the custom rule" in stepper.describe()

    def test_exactly_the_changed_gradients_are_marked(self):
        stepper = GraphStepper(domain, features, mode="substitution")
        leaves = {each.name for each in stepper.changed if hasattr(each, "kind")}
        assert leaves == {"network.0.weight", "network.0.bias", "network.2.weight", "network.2.bias"}
        above = {"addmm", "addmm₂", "tanh", "t", "t₂", "ReverseGradient"}
        targets = {
            stepper.recording.nodes[each.target].name for each in stepper.changed if hasattr(each, "target")
        }
        assert targets == above
        assert sum("≠" in part for part in stepper.widget.parts) == len(stepper.changed)

    def test_gradients_between_two_custom_nodes_are_compared(self):
        stepper = GraphStepper(deep, vector(), mode="substitution")
        assert len(stepper.recording) == len(stepper.default) == 53
        truth = set()
        for edge in stepper.default.edges:
            twins = [
                each
                for each in stepper.recording.edges
                if each.target == stepper.pairs.get(edge.target) and each.input == edge.input
            ]
            truth |= {id(each) for each in twins if not torch.allclose(each.gradient, edge.gradient)}
        assert truth <= {id(each) for each in stepper.changed}
        assert len(truth) > 20
        assert stepper.size[0] < 800
        assert "20 custom nodes" in GraphStepper(deep, vector()).choose(step=0).describe()

    def test_gradients_that_explode_are_marked(self):
        class Softplus(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return torch.log(1 + torch.exp(x))

            @staticmethod
            def backward(ctx, grad_output):
                return grad_output * torch.sigmoid(ctx.saved_tensors[0])

        stepper = GraphStepper(Softplus.apply, number(800.0), mode="substitution")
        assert "x: NaN by default, 1 by the custom rule" in stepper.describe()
        assert stepper.replaced[0].text == "local derivative NaN replaced by 1"

    def test_rules_that_agree_say_so(self):
        x = number(1.3)
        for against in (None, lambda x: (x * torch.sigmoid(x)) ** 2):
            stepper = GraphStepper(lambda x: Swish.apply(x) ** 2, x, mode="substitution", against=against)
            assert stepper.changed == []
            assert "every gradient is the same" in stepper.describe()
            assert "under both rules" in stepper.replaced[0].text

    def test_a_wrong_rule_is_found_against_the_built_in(self):
        class Wrong(Swish):
            @staticmethod
            def backward(ctx, grad_output):
                (x,) = ctx.saved_tensors
                return grad_output * torch.sigmoid(x)

        stepper = GraphStepper(
            lambda x: Wrong.apply(x) * 3,
            number(1.3),
            mode="substitution",
            against=lambda x: x * x.sigmoid() * 3,
        )
        assert [each.name for each in stepper.changed if hasattr(each, "kind")] == ["x"]
        assert stepper.replaced[0].text == "local derivative 1.005 replaced by 0.7858"

    def test_both_graphs_move_together(self):
        stepper = GraphStepper(huber, vector(), torch.zeros(3).double(), mode="substitution")
        ours = [event for _, right in stepper.steps for event in right]
        theirs = [event for left, _ in stepper.steps for event in left]
        assert ours == stepper.recording.events
        assert theirs == stepper.default.events
        words = stepper.choose(step=len(stepper.steps)).describe()
        assert "both alike, x collects" in words


class TestVerification:
    def test_a_function_that_needs_a_graph_of_its_own(self):
        def slope_squared(x):
            x = 1.0 * x
            x.retain_grad()
            x.register_hook(lambda gradient: gradient)
            (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
            return (slope**2).sum()

        stepper = GraphStepper(slope_squared, vector(), mode="verification")
        assert stepper.answer.agrees and not stepper.answer.raised

    def test_slope_is_the_central_difference(self):
        x = vector()
        target = torch.zeros(3).double()
        stepper = GraphStepper(huber, x, target, mode="verification")
        for place in range(3):
            for eps in (1e-1, 1e-6):
                answer = stepper.choose(eps=eps, coordinate=place).answer
                truth = central_difference(lambda x: huber(x, target), x.detach(), place, answer.eps)
                assert answer.slope == pytest.approx(float(truth), rel=1e-9)
                assert answer.analytic == stepper.recording["x"].gradient[place].item()

    def test_verdicts(self):
        stepper = verification()
        assert stepper.choose(eps=1e-6).answer.agrees
        assert "slope and gradient agree" in stepper.describe()
        stepper = GraphStepper(rounded, number(1.3), mode="verification")
        assert not stepper.answer.agrees
        assert "StraightThroughRound declares grad_input = grad_output" in stepper.describe()

        class Forgets(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**2

            @staticmethod
            def backward(ctx, grad_output):
                return 2 * ctx.saved_tensors[0]

        stepper = GraphStepper(lambda x: Forgets.apply(x) * 5, number(1.0), mode="verification")
        assert "slope and gradient differ" in stepper.describe()

    def test_several_outputs_are_summed(self):
        stepper = GraphStepper(lambda x: (x.sin(), x.prod()), vector(), mode="verification")
        assert stepper.answer.agrees
        assert "the sum of the outputs" in stepper.describe()

    def test_parameters_of_modules_are_nudged_and_put_back(self):
        before = {name: each.clone() for name, each in network.state_dict().items()}
        versions = [each._version for each in network.parameters()]
        stepper = GraphStepper(domain, features, mode="verification")
        assert {stepper.recording.nodes[place].name for place, _ in stepper.coordinates} == {
            *("network.0.weight", "network.0.bias", "network.2.weight", "network.2.bias")
        }
        assert "ReverseGradient declares" in stepper.describe()
        assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())
        assert [each._version for each in network.parameters()] == versions

    def test_a_function_that_raises_at_one_step(self):
        def careful(x):
            if x > 2.05:
                raise ArithmeticError("too far")
            return x**2

        stepper = GraphStepper(careful, number(2.0), mode="verification")
        assert (
            stepper.choose(eps=1e-1).describe() == "x nudged by ±1.0e-01: fn raised ArithmeticError: too far."
        )
        assert stepper.still()
        assert stepper.choose(eps=1e-3).answer.agrees

    def test_random_functions_draw_the_same_numbers(self):
        def noisy(x):
            return torch.nn.functional.dropout(x, 0.5).sum() + torch.rand(())

        stepper = GraphStepper(noisy, vector(), mode="verification")
        assert all(stepper.choose(coordinate=place, eps=1e-4).answer.agrees for place in range(3))

    def test_nothing_to_nudge(self):
        z = torch.ones(2, dtype=torch.complex64, requires_grad=True)
        with pytest.raises(ValueError, match="nothing to nudge"):
            GraphStepper(lambda z: z.abs().sum(), z, mode="verification")


class TestWrongUse:
    def test_mode(self):
        with pytest.raises(
            ValueError, match="mode is 'sideways'; allowed: injection, substitution, verification"
        ):
            GraphStepper(huber, vector(), vector(), mode="sideways")

    def test_against(self):
        with pytest.raises(ValueError, match="belongs to mode='substitution'"):
            GraphStepper(torch.exp, number(1.0), against=torch.exp)
        with pytest.raises(TypeError, match="against must be callable"):
            GraphStepper(rounded, number(1.0), mode="substitution", against=3)
        with pytest.raises(ValueError, match="no custom Function"):
            GraphStepper(torch.exp, number(1.0), mode="substitution")

    def test_no_graph_says_why(self):
        with pytest.raises(ValueError, match="detached"):
            GraphStepper(lambda x: x.detach(), number(1.0))
