"""The recorder against PyTorch: every gradient against ``autograd.grad``, every value against recomputation."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from helpers.functions import reverse_gradient, straight_through_round
from helpers.functions.specimens import CustomHuber
from helpers.graph import Recording, record


def leaf(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


class SwapAndScale(torch.autograd.Function):
    """Two outputs, one argument that is not a tensor."""

    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.scale = scale
        return y * scale, x * scale

    @staticmethod
    def backward(ctx, grad_first, grad_second):
        return grad_second * ctx.scale, grad_first * ctx.scale, None


class AddOneInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class BroadcastBias(torch.autograd.Function):
    """Saves inputs, leaves the summing to the engine."""

    @staticmethod
    def forward(x, bias):
        return x + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output


class ReadsNumPy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.cos()


def in_place_on_a_view(x):
    y = x.clone()
    y[0] = y[1] * 2
    y[1:].mul_(3)
    return y.exp().sum()


def write_into_a_buffer(x):
    buffer = torch.zeros(3, dtype=x.dtype)
    buffer[1] = x.prod()
    return (buffer * buffer).sum()


def gradient_penalty(x):
    y = (x**3).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    return gradient.pow(2).sum()


def twice_the_same_custom(x):
    return reverse_gradient(reverse_gradient(x, 2.0), 0.5).sum()


def max_with_indices(x):
    values, indices = x.max(1)
    return values * 2, indices


def mixed_branch(x, y):
    quiet = y.detach() * 3
    return (x * quiet + y).mean()


def dropout(x):
    return torch.nn.functional.dropout(x, 0.5, training=True).sum()


linear = torch.nn.Linear(3, 4).double()
network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
tied = torch.nn.Linear(4, 4).double()
classes = torch.tensor([1, 0, 3])

GRAPHS: dict[str, tuple[Callable, tuple]] = {
    "power": (lambda x: x**3, (leaf(),)),
    "chain of vectors": (lambda x: x.sin().exp().sum(), (leaf(4),)),
    "broadcasting": (lambda x, bias: ((x + bias) * bias).sum(), (leaf(4, 3), leaf(3, seed=1))),
    "reused tensor": (lambda x: (x * x + x.exp() * x).sum(), (leaf(3),)),
    "the same input twice": (lambda x, y: (x * y).sum(), (leaf(2),) * 2),
    "requires_grad=False": (lambda x, w: (x @ w).tanh().sum(), (leaf(2, 3), leaf(3, 2, seed=1).detach())),
    "detached branch": (mixed_branch, (leaf(3), leaf(3, seed=1))),
    "several outputs": (lambda x: (x.sum(), x.prod(), x[0]), (leaf(3),)),
    "output that is not a scalar": (lambda x: x.cos() * x, (leaf(2, 3),)),
    "dict of outputs": (lambda x: {"loss": x.sum(), "parts": [x.exp(), x.sin()]}, (leaf(3),)),
    "unbind": (lambda x: (lambda a, b, c: a * b + c)(*x.unbind()), (leaf(3),)),
    "unbind, one part unused": (lambda x: (lambda a, b, c: a * c)(*x.unbind()), (leaf(3),)),
    "split and cat": (lambda x: torch.cat([part.exp() for part in x.split(2)]).sum(), (leaf(5),)),
    "max with indices": (max_with_indices, (leaf(3, 4),)),
    "gather and where": (lambda x: torch.where(x > 0, x.exp(), x * 2).sum(), (leaf(5),)),
    "views": (lambda x: x.view(6).reshape(3, 2).t()[0].unsqueeze(0).expand(4, 3).sum(), (leaf(2, 3),)),
    "in place": (lambda x: x.sin().mul_(2).add_(x).sum(), (leaf(3),)),
    "in place on a view": (in_place_on_a_view, (leaf(4),)),
    "writing into a buffer": (write_into_a_buffer, (leaf(3),)),
    "gradient penalty": (gradient_penalty, (leaf(3),)),
    "module": (lambda x: linear(x).relu().sum(), (leaf(2, 3),)),
    "network": (network, (leaf(2, 3).detach(),)),
    "tied weights": (lambda x: tied(tied(x).tanh()).sum(), (leaf(2, 4),)),
    "cross entropy": (lambda x: torch.nn.functional.cross_entropy(x, classes), (leaf(3, 4),)),
    "layer norm": (
        lambda x, w: torch.nn.functional.layer_norm(x, (4,), w).pow(2).sum(),
        (leaf(3, 4), leaf(4)),
    ),
    "list of inputs": (lambda xs: (xs[0] * xs[1]).sum(), ([leaf(2), leaf(2, seed=1)],)),
    "dropout": (dropout, (leaf(6),)),
    "complex": (lambda x: torch.fft.fft(x).abs().sum(), (leaf(4),)),
    "custom Huber": (lambda x, t: CustomHuber.apply(x, t).mean(), (leaf(4), torch.zeros(4).double())),
    "custom with two outputs": (
        lambda x, y: SwapAndScale.apply(x, y, 3.0)[0].sum() + x.sum(),
        (leaf(2), leaf(2)),
    ),
    "custom in place": (lambda x: AddOneInPlace.apply(x * 2).exp().sum(), (leaf(3),)),
    "custom, broadcast bias": (
        lambda x, bias: BroadcastBias.apply(x, bias).exp().sum(),
        (leaf(4, 3), leaf(3)),
    ),
    "custom, twice": (twice_the_same_custom, (leaf(3),)),
    "custom, NumPy inside": (lambda x: ReadsNumPy.apply(x).sum(), (leaf(3),)),
    "custom inside a chain": (lambda x: (straight_through_round(x * 1.7) - 3).pow(2).sum(), (leaf(3),)),
    "embedding": (lambda w: torch.nn.functional.embedding(classes, w).sum(), (leaf(4, 2),)),
    "output is the input": (lambda x: (x, x * 2), (leaf(2),)),
}


def nodes_of(outputs: list[Tensor]) -> list:
    """All nodes of a graph, in the order in which the recorder lists operators: by sequence number."""
    found, waiting = set(), [get_gradient_edge(each).node for each in outputs if each.requires_grad]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [source for source, _ in node.next_functions if source is not None]
    return sorted(
        (node for node in found if not hasattr(node, "variable")), key=lambda node: node._sequence_nr()
    )


def run(fn: Callable, inputs: tuple) -> list[Tensor]:
    with torch.random.fork_rng(devices=[]):
        return [each for each in torch.utils._pytree.tree_leaves(fn(*inputs)) if isinstance(each, Tensor)]


@pytest.fixture(scope="module", params=GRAPHS)
def graph(request) -> tuple[Callable, tuple, Recording]:
    fn, inputs = GRAPHS[request.param]
    return fn, inputs, record(fn, *inputs)


def test_every_gradient_is_the_one_of_autograd(graph):
    fn, inputs, recording = graph
    outputs = run(fn, inputs)
    ends = [each for each in outputs if each.requires_grad]
    seeds = [torch.ones_like(each) for each in ends]
    fresh = nodes_of(outputs)
    recorded = recording.of_kind("operator", "custom")
    assert [node.name() for node in fresh] == [node.operator for node in recorded]
    compared = 0
    for node, seen in zip(fresh, recorded, strict=True):
        edges = [GradientEdge(node, number) for number in range(len(seen.upstream))]
        expected = torch.autograd.grad(ends, edges, seeds, retain_graph=True, allow_unused=True)
        for upstream, truth in zip(seen.upstream, expected, strict=True):
            if upstream is None:
                assert truth is None or not truth.any()
            else:
                torch.testing.assert_close(upstream, truth, rtol=0, atol=0)
                compared += 1
    for node in recording.of_kind("leaf"):
        (truth,) = torch.autograd.grad(ends, node.tensor, seeds, retain_graph=True, allow_unused=True)
        torch.testing.assert_close(node.gradient, truth, rtol=0, atol=0)
    assert compared >= len(recorded)


def test_gradients_on_edges_add_up_to_what_arrives(graph):
    _, _, recording = graph
    for node in recording.nodes:
        if node.kind in ("constant", "output"):
            continue
        for number, upstream in enumerate(node.upstream):
            parts = [
                edge.gradient
                for edge in recording.out_of(node)
                if edge.differentiable and edge.output == number and edge.gradient is not None
            ]
            if upstream is not None and parts:
                torch.testing.assert_close(sum(parts[1:], parts[0]), upstream)


def test_every_forward_value_is_recomputed(graph):
    """A value is right if backward's own edge, found on a fresh run, holds the same number."""
    fn, inputs, recording = graph
    kept: dict = {}

    class Keep(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for each in torch.utils._pytree.tree_leaves(result):
                if isinstance(each, Tensor) and each.grad_fn is not None:
                    with torch._C.DisableTorchFunction(), torch.no_grad():
                        kept.setdefault((each.grad_fn, each.output_nr), each.detach().clone())
            return result

    with Keep():
        outputs = run(fn, inputs)
    recorded = recording.of_kind("operator", "custom")
    compared = 0
    for node, seen in zip(nodes_of(outputs), recorded, strict=True):
        for number, value in enumerate(seen.values):
            if (node, number) in kept:
                torch.testing.assert_close(value, kept[node, number], rtol=0, atol=0)
                compared += 1
    for end, output in zip(recording.of_kind("output"), outputs, strict=True):
        torch.testing.assert_close(end.value, output.detach(), rtol=0, atol=0)
    for node in recording.of_kind("leaf"):
        torch.testing.assert_close(node.value, node.tensor.detach(), rtol=0, atol=0)
    assert compared >= len(recorded) / 3


def test_no_value_on_an_edge_is_missing(graph):
    _, _, recording = graph
    assert [edge for edge in recording.edges if edge.value is None] == []


def test_events_follow_the_graph(graph):
    _, _, recording = graph
    order = {(event.phase, event.node): at for at, event in enumerate(recording.events)}
    assert len(order) == len(recording.events)
    phases = [event.phase for event in recording.events]
    assert phases == sorted(phases, key=("forward", "backward").index)
    for edge in recording.edges:
        assert order["forward", edge.source] < order["forward", edge.target]
        if ("backward", edge.source) in order and ("backward", edge.target) in order:
            assert order["backward", edge.target] < order["backward", edge.source]


def test_every_event_reads_as_a_sentence(graph):
    _, _, recording = graph
    lines = recording.describe().splitlines()
    assert len(lines) == len(recording.events)
    assert all(line.endswith(".") for line in lines)
    assert len(recording.table().splitlines()) == len(recording) + 2


def test_values_inside_composite_operators_are_seen():
    """``cross_entropy`` is one call and two nodes; the value between them is seen below autograd."""
    x = leaf(3, 4)
    recording = record(lambda x: torch.nn.functional.cross_entropy(x, classes), x)
    torch.testing.assert_close(recording["log_softmax"].value, x.detach().log_softmax(1))
    assert recording["classes"].kind == "constant"


def test_values_are_of_their_moment():
    """A later operator in place does not reach into what was recorded."""
    recording = record(lambda x: x.cos().mul_(10).sum(), torch.zeros(2, requires_grad=True))
    assert recording["cos"].value.tolist() == [1, 1]
    assert recording["mul"].value.tolist() == [10, 10]


def test_kinds_names_and_arguments():
    recording = record(
        lambda x, target: CustomHuber.apply(x, target).pow(2).mean(), leaf(3), torch.zeros(3).double()
    )
    assert [(node.name, node.kind) for node in recording.nodes] == [
        ("x", "leaf"),
        ("target", "constant"),
        ("CustomHuber", "custom"),
        ("pow", "operator"),
        ("mean", "operator"),
        ("output", "output"),
    ]
    assert recording["CustomHuber"].function is CustomHuber
    assert recording["pow"].arguments == ("exponent=2",)
    assert recording["pow"].operator == "PowBackward0"
    edge = recording.into(recording["CustomHuber"])[1]
    assert not edge.differentiable and edge.gradient is None


def test_parameters_have_the_names_they_have_around():
    scale = leaf(2, seed=3)
    recording = record(lambda x: (linear(x).sum(), (scale * 2).sum()), leaf(2, 3))
    assert {node.name for node in recording.of_kind("leaf")} == {"x", "scale", "linear.weight", "linear.bias"}
    assert {node.name for node in record(network, leaf(2, 3)).of_kind("leaf")} >= {"0.weight", "2.bias"}
    assert record(torch.exp, leaf(2))["x"].kind == "leaf"
    assert record(SwapAndScale.apply, leaf(2), leaf(2), 2.0, names=["a", "b", "factor"])["b"].kind == "leaf"


def test_a_declared_rule_is_kept():
    recording = record(lambda x: reverse_gradient(x, 2.0).sum(), leaf(2))
    assert recording["ReverseGradient"].rule == "grad_input = -scale * grad_output"
    assert recording["ReverseGradient"].arguments == ("2",)


def test_local_derivative_of_single_numbers():
    recording = record(lambda x: x**3, torch.tensor(2.0, requires_grad=True))
    (edge,) = recording.into(recording["pow"])
    assert edge.local == 12
    assert edge.vjp == "1 · 12 = 12"
    recording = record(lambda x: (x * 2).sum(), leaf(3))
    (edge,) = recording.into(recording["mul"])
    assert edge.local is None
    assert edge.vjp.startswith("(3,) → (3,), norm 1.732 → 3.464")


def test_saved_tensors_and_their_bytes():
    x = torch.ones(5, requires_grad=True)
    recording = record(lambda x: (x.exp() * x).sum(), x)
    assert [(each.name, each.bytes) for each in recording["exp"].saved] == [("result", 20)]
    assert recording["mul"].bytes == 40

    class OnContext(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.square = x * x
            return x**3

        @staticmethod
        def backward(ctx, grad_output):
            return 3 * ctx.square * grad_output

    names = [each.name for each in record(OnContext.apply, x)["OnContext"].saved]
    assert names == ["saved_tensors[0]", "ctx.square"]


def test_grad_outputs():
    x = leaf(3)
    upstream = torch.tensor([1.0, -2.0, 0.5]).double()
    recording = record(torch.sin, x, grad_outputs=[upstream])
    torch.testing.assert_close(recording["x"].gradient, upstream * x.detach().cos())
    with pytest.raises(ValueError, match=r"grad_outputs .* \[\(2,\)\].* \[\(3,\)\]"):
        record(torch.sin, x, grad_outputs=[torch.ones(2)])


def test_default_rule_in_place_of_the_custom_one():
    x = torch.tensor([0.3, 1.2], requires_grad=True)
    usual = record(lambda x: straight_through_round(x).sum(), x)
    default = record(lambda x: straight_through_round(x).sum(), x, custom=False)
    assert usual["x"].gradient.tolist() == [1, 1]
    assert default["x"].gradient.tolist() == [0, 0]
    assert default["round"].inside == "StraightThroughRound"
    assert default["sum"].inside == ""
    with pytest.raises(ValueError, match="ReadsNumPy cannot run as ordinary code"):
        record(_numpy_without_detach, x, custom=False)


def _numpy_without_detach(x):
    class ReadsNumPy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.from_numpy(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return ReadsNumPy.apply(x).sum()


def test_a_function_bound_before_is_seen_too():
    apply = CustomHuber.apply
    recording = record(lambda x, t: apply(x, t).sum(), leaf(3), torch.ones(3).double())
    assert [edge.target for edge in recording.out_of(recording["t"])] == [recording["CustomHuber"].id]


class TestEverythingIsAsBefore:
    def test_grads_random_states_and_grad_mode(self):
        x = leaf(4)
        x.grad = torch.full((4,), 7.0, dtype=torch.float64)
        network.zero_grad()
        torch.manual_seed(1), random.seed(1), np.random.seed(1)
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()

        def noisy(x):
            return (x * torch.rand(4) * random.random() * np.random.rand()).sum()

        with torch.no_grad():
            record(noisy, x)
            assert not torch.is_grad_enabled()
        record(network, leaf(2, 3))
        assert x.grad.tolist() == [7.0] * 4
        assert all(each.grad is None for each in network.parameters())
        after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
        assert torch.equal(before[0], after[0]) and before[1:] == after[1:]

    def test_values_buffers_and_versions(self):
        norm = torch.nn.BatchNorm1d(3)
        constant = torch.ones(3)
        record(lambda x, c: norm(x).sum() + c.add_(1).sum(), torch.randn(4, 3, requires_grad=True), constant)
        assert constant.tolist() == [1, 1, 1] and constant._version == 0
        record(norm, torch.randn(4, 3))
        bare = torch.nn.BatchNorm1d(3)
        record(bare, torch.randn(4, 3))
        assert torch.equal(bare.running_mean, torch.zeros(3))
        assert bare.num_batches_tracked == 0

    def test_the_graph_around_survives(self):
        w = leaf(3)
        around = w.exp()
        record(lambda x: (x * around).sum(), leaf(3, seed=1))
        around.sum().backward()
        torch.testing.assert_close(w.grad, w.detach().exp())

    def test_after_an_error_too(self):
        def breaks(x):
            torch.rand(3)
            raise KeyError("mine")

        state = torch.get_rng_state()
        with pytest.raises(KeyError, match="mine"):
            record(breaks, leaf(2))
        assert torch.equal(torch.get_rng_state(), state)
        assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)

    def test_no_hook_stays(self):
        x = leaf(3)
        y = x * 2
        record(lambda z: (z * y).sum(), leaf(3, seed=1))
        assert not x._backward_hooks
        calls = []
        x.register_hook(lambda gradient: calls.append(gradient))
        y.sum().backward()
        assert len(calls) == 1


class TestErrorsSpeak:
    @pytest.mark.parametrize(
        ("fn", "words"),
        [
            (lambda x: x.detach() * 2, "detached"),
            (lambda x: x.data.exp(), "detached"),
            (lambda x: torch.from_numpy(x.detach().numpy()) * 2, "NumPy"),
            (lambda x: torch.tensor(x.sum().item()), "NumPy or Python numbers"),
            (lambda x: x > 0, "integer or boolean"),
            (lambda x: x.argmax(), r"int64"),
            (torch.no_grad()(lambda x: x * 2), "no_grad"),
            (lambda x: torch.ones(3), "no tensor that took part requires a gradient"),
        ],
    )
    def test_no_graph_says_why(self, fn, words):
        with pytest.raises(ValueError, match=words):
            record(fn, leaf(3))

    def test_no_leaf_requires_grad(self):
        with pytest.raises(ValueError, match="requires_grad_"):
            record(torch.exp, torch.ones(2))

    def test_too_many_nodes_says_how_many(self):
        def deep(x):
            for _ in range(99):
                x = x * 1.1
            return x

        with pytest.raises(ValueError, match="100 nodes; at most 60"):
            record(deep, leaf(2))
        assert len(record(deep, leaf(2), limit=100)) == 101

    def test_wrong_use(self):
        with pytest.raises(TypeError, match="callable"):
            record(3)
        with pytest.raises(TypeError, match="without a tensor"):
            record(lambda x: 3.0, leaf(2))
        with pytest.raises(ValueError, match="one name per input"):
            record(torch.exp, leaf(2), names=["x", "y"])

    def test_an_error_in_backward_names_the_node(self):
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad_output):
                raise ArithmeticError("no idea")

        with pytest.raises(ArithmeticError, match="no idea") as caught:
            record(lambda x: Broken.apply(x).sum(), leaf(2))
        assert "BrokenBackward" in caught.value.__notes__[0]


def test_recording_does_not_import_the_compiler():
    code = (
        "import sys, torch; from helpers.graph import record; "
        "record(lambda x: x.exp(), torch.ones(2, requires_grad=True)); "
        "print('torch._dynamo' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
