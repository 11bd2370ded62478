"""The whole shelf through the battery; then shapes that broadcast, extreme numbers and wrong arguments."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import functions as f
from helpers.functions.contract import Support
from tests.benchmarks import functions as benchmarks
from tests.functions import battery
from tests.functions.battery import DOUBLE, Case
from tests.functions.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
CLASSES = {
    value
    for name in f.__all__
    if isinstance(value := getattr(f, name), type) and issubclass(value, torch.autograd.Function)
}


@pytest.mark.parametrize("check", battery.CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_function_keeps_its_promise(case: Case, check) -> None:
    check(case)


def test_every_function_of_the_shelf_is_examined() -> None:
    assert {case.function for case in CASES} == CLASSES
    assert all(battery.declared(each, Support) for each in CLASSES)


# -- shapes that broadcast, extreme numbers, wrong arguments ------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 3), max_size=3), st.data())
def test_losses_broadcast_as_operators_do(shape: list[int], data) -> None:
    other = [data.draw(st.sampled_from([1, size])) for size in shape][data.draw(st.integers(0, len(shape))) :]
    a = torch.linspace(-2, 2, math.prod(shape), dtype=DOUBLE).reshape(shape).requires_grad_()
    b = torch.linspace(-1.3, 1.9, math.prod(other), dtype=DOUBLE).reshape(other).requires_grad_()
    mine = torch.autograd.grad(f.huber(a, b).sum(), (a, b))
    right = torch.autograd.grad(
        torch.nn.functional.huber_loss(*torch.broadcast_tensors(a, b), reduction="sum"), (a, b)
    )
    for x, y in zip(mine, right, strict=True):
        torch.testing.assert_close(x, y)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_reductions_work_along_any_dimension(shape: list[int], data) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    keepdim = data.draw(st.booleans())
    x = torch.linspace(-3, 3, math.prod(shape), dtype=DOUBLE).reshape(shape).requires_grad_()
    for mine, right in (
        (f.logsumexp(x, dim, keepdim), x.logsumexp(dim, keepdim)),
        (f.safe_norm(x, dim, keepdim), torch.linalg.vector_norm(x, dim=dim, keepdim=keepdim)),
        (f.softmax(x, dim), x.softmax(dim)),
    ):
        torch.testing.assert_close(mine, right)
        weight = torch.linspace(0.5, 1.5, mine.numel(), dtype=DOUBLE).reshape(mine.shape)
        a, b = (torch.autograd.grad(each, x, weight, retain_graph=True)[0] for each in (mine, right))
        torch.testing.assert_close(a.nan_to_num(), b.nan_to_num())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([case for case in CASES if case.elementwise]), st.integers(0, 2**16), st.data())
def test_gradients_are_right_at_random_points_of_random_shapes(case: Case, seed: int, data) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    battery.check_gradient(case, seed, [shape] * len(case.shapes))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([case for case in CASES if not case.elementwise]), st.integers(0, 2**16))
def test_gradients_are_right_at_random_points(case: Case, seed: int) -> None:
    battery.check_gradient(case, seed)
    battery.check_value(case, seed)


EXTREME = {
    "huber": (lambda x: f.huber(x, torch.zeros_like(x)), [0.0, 1e-300, 1e300]),
    "focal": (lambda x: f.focal(x, torch.ones_like(x)), [0.0, 1e3, -1e3, 1e300]),
    "logsumexp": (
        lambda x: f.logsumexp(x[:, None] * torch.tensor([1.0, -1.0], dtype=DOUBLE), 1),
        [0.0, 1e3, -1e3, 1e300],
    ),
    "log1mexp": (f.log1mexp, [1e-300, 1e-20, 50.0, 700.0]),
    "safe_sqrt": (f.safe_sqrt, [0.0, 1e-300, 1e300]),
    "safe_norm": (
        lambda x: f.safe_norm(x[:, None] * torch.tensor([3.0, 4.0], dtype=DOUBLE), 1),
        [0.0, 1e-200, 1e200],
    ),
    "softplus": (f.softplus, [0.0, 1e3, -1e3, 1e300]),
    "softmax": (
        lambda x: f.softmax(x[:, None] * torch.tensor([1.0, -1.0], dtype=DOUBLE), 1),
        [0.0, 1e3, 1e300],
    ),
    "swiglu": (lambda x: f.recompute_swiglu(x, torch.ones_like(x)), [0.0, 1e3, -1e3]),
}


@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32])
@pytest.mark.parametrize(("fn", "numbers"), EXTREME.values(), ids=EXTREME)
def test_extreme_numbers_have_finite_values_and_gradients(fn, numbers: list[float], dtype) -> None:
    limit = torch.finfo(dtype)
    inside = [each for each in numbers if each == 0 or 1e3 * limit.tiny < abs(each) < limit.max / 1e3]
    x = torch.tensor(inside, dtype=dtype, requires_grad=True)
    y = fn(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert y.isfinite().all() and gradient.isfinite().all(), (y, gradient)


@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32])
@pytest.mark.parametrize(
    "fn",
    [
        f.log1mexp,
        f.softplus,
        lambda x: f.focal(x, torch.ones_like(x)),
        lambda x: f.huber(x, torch.zeros_like(x)),
    ],
)
def test_second_derivatives_do_not_end_in_nan(fn, dtype) -> None:
    x = torch.tensor([1e-3, 1.0, 50.0, 100.0, 1e3, 1e30], dtype=dtype, requires_grad=True)
    (first,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.isfinite().all(), second


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e25, 3e38])
def test_a_clipped_gradient_has_the_norm_and_direction_it_should(size: float) -> None:
    x = torch.zeros(2, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        f.clip_gradient_norm(x, 0.5), x, torch.tensor([0.6 * size, -0.8 * size])
    )
    length = min(size, 0.5)
    torch.testing.assert_close(gradient, torch.tensor([0.6 * length, -0.8 * length]))


def test_a_clipped_gradient_of_zeros_or_without_numbers_stays_so() -> None:
    for x in (torch.zeros(2, requires_grad=True), torch.zeros(0, requires_grad=True)):
        (gradient,) = torch.autograd.grad(f.clip_gradient_norm(x, 0.5), x, torch.zeros_like(x))
        assert torch.equal(gradient, torch.zeros_like(x))


@pytest.mark.parametrize("beta", [0.01, 1.0, 300.0])
def test_softplus_keeps_the_digits_of_float64(beta: float) -> None:
    x = torch.linspace(-60, 60, 4001, dtype=DOUBLE) / beta
    right = torch.logaddexp(beta * x, torch.zeros_like(x)) / beta
    torch.testing.assert_close(f.softplus(x, beta), right, rtol=1e-13, atol=0.0)


def test_a_fully_masked_row_has_no_nan() -> None:
    x = torch.full((2, 3), -math.inf, dtype=DOUBLE)
    x[1, 0] = 1.0
    x.requires_grad_()
    y = f.logsumexp(x, 1)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert y.tolist() == [-math.inf, 1.0] and gradient.tolist() == [[0, 0, 0], [1, 0, 0]]


ONE, WHOLE, HIDDEN = torch.ones(3), torch.arange(3), torch.ones(3, requires_grad=True)
WRONG = [
    (lambda: f.huber(ONE, ONE, -1.0), ValueError, "delta is -1.0; it must be greater than 0"),
    (lambda: f.huber(ONE, ONE, math.nan), ValueError, "delta is nan"),
    (lambda: f.huber(ONE, ONE, "1"), TypeError, "delta must be a number, not str"),
    (lambda: f.huber(WHOLE, ONE), TypeError, "input has dtype torch.int64, which carries no gradient"),
    (lambda: f.huber(ONE, ONE.double()), TypeError, "target has dtype torch.float64, input torch.float32"),
    (lambda: f.huber(ONE, torch.ones(2)), ValueError, r"do not broadcast together: input \(3,\), target \(2,\)"),
    (lambda: f.huber(ONE, torch.ones(3, device="meta")), ValueError, "target is on meta"),
    (lambda: f.huber([1.0], ONE), TypeError, "input must be a tensor, not list"),
    (lambda: f.quantile(ONE, ONE, 1.0), ValueError, "q is 1.0; it must be greater than 0 and less than 1"),
    (lambda: f.focal(ONE, ONE, -0.5), ValueError, "gamma is -0.5"),
    (lambda: f.focal(ONE, ONE.to(torch.complex64)), TypeError, "target has dtype torch.complex64; labels are real"),
    (lambda: f.focal(ONE, torch.ones(3, device="meta")), ValueError, "target is on meta, logits on cpu"),
    (lambda: f.contrastive(ONE[:, None], torch.ones(2, 1)), ValueError, r"one shape \(n, d\)"),
    (lambda: f.logsumexp(ONE, 1), ValueError, "dim is 1, but the tensor has shape"),
    (lambda: f.logsumexp(ONE, 0.5), TypeError, "dim must be a whole number"),
    (lambda: f.safe_norm(torch.ones(2, 0), 1), ValueError, "dimension 1 is empty"),
    (lambda: f.softplus(ONE, 0.0), ValueError, "beta is 0.0"),
    (lambda: f.reverse_gradient(ONE, -1.0), ValueError, "scale is -1.0; it must be at least 0"),
    (lambda: f.clip_gradient_norm(ONE, math.inf), ValueError, "max_norm is inf"),
    (lambda: f.matmul_bias(ONE[None], torch.ones(2, 2), torch.ones(2)), ValueError, "x, weight and bias have shapes"),
    (lambda: f.layer_norm(ONE[None], torch.ones(2), torch.ones(2)), ValueError, "x, weight and bias have shapes"),
    (lambda: f.recompute_swiglu(ONE, torch.ones(2)), ValueError, "gate and up have shapes"),
    (lambda: f.tiled_attention(torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 3)), ValueError, "q, k and v have shapes"),
    (lambda: f.linear_cross_entropy(torch.ones(2, 3), torch.ones(4, 3), torch.tensor([0, 9])), ValueError, "target holds 9; classes are 0 to 3"),
    (lambda: f.linear_cross_entropy(torch.ones(2, 3), torch.ones(4, 3), WHOLE), ValueError, "target must be 2 whole numbers"),
    (lambda: f.linear_cross_entropy(ONE[None], ONE[None], WHOLE[:1], reduction="none"), ValueError, "reduction is 'none'"),
    (lambda: f.linear_cross_entropy(ONE[None], ONE[None], WHOLE[:1], chunk=0), ValueError, "^chunk is 0; it must be a whole"),
    (lambda: f.linear_cross_entropy(ONE[None], ONE[None], WHOLE[:1], vocabulary_chunk=2.0), ValueError, "vocabulary_chunk is 2.0"),
    (lambda: f.tiled_attention(ONE[None], torch.ones(0, 3), torch.ones(0, 3)), ValueError, "at least one key"),
    (lambda: f.tiled_attention(torch.ones(2, 1, 3), torch.ones(3, 1, 3), torch.ones(1, 3)), ValueError, "leading dimensions of q"),
    (lambda: f.cubic_spline(ONE, torch.arange(3.0).requires_grad_(), ONE), ValueError, "knots requires a gradient"),
    (lambda: f.cubic_spline(*(torch.ones(2, dtype=torch.bfloat16),) * 3), TypeError, "x has dtype torch.bfloat16"),
    (lambda: f.cubic_spline(ONE, torch.tensor([0.0, 0.0]), torch.ones(2)), ValueError, "knots must increase"),
    (lambda: f.sparse_solve(ONE, WHOLE, WHOLE + 5, ONE), ValueError, "columns must lie between 0 and 2"),
    (lambda: f.sparse_solve(torch.zeros(3), WHOLE, WHOLE, ONE), ValueError, "the matrix has no inverse"),
    (lambda: f.sparse_solve(ONE[None], WHOLE, WHOLE, ONE), ValueError, r"they must be \(m,\) and \(n,\)"),
    (lambda: f.sparse_solve(ONE, ONE > 0, WHOLE, ONE), ValueError, "rows must be whole numbers"),
    (lambda: f.fixed_point(lambda z: 3 * z + 1, ONE), ValueError, "the iteration diverged: not finite after"),
    (lambda: f.fixed_point(lambda z: z[:1], ONE), ValueError, r"f gives torch.float32 of shape \(1,\)"),
    (lambda: f.fixed_point(torch.cos, ONE, max_iter=0), ValueError, "max_iter is 0"),
    (lambda: f.fixed_point(lambda z: HIDDEN * z, ONE), ValueError, "not among parameters"),
    (lambda: f.numpy_function(np.sin, np.cos)(), TypeError, "needs at least one tensor"),
    (lambda: f.fixed_point(lambda z: -z + 1, ONE / 3), ValueError, "no fixed point after 1000 iterations"),
    (lambda: f.simulate(torch.tensor([-1.0, 0.1, 0.3])), ValueError, "length is -1.0"),
    (lambda: f.simulate(ONE, gradient="magic"), ValueError, "'adjoint' and 'difference'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), WRONG, ids=[words[:40] for _, _, words in WRONG])
def test_a_wrong_argument_is_named(call, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_numpy_function_says_what_its_pair_got_wrong() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    short = f.numpy_function(np.add, lambda g, out, a, b: g)
    with pytest.raises(ValueError, match="1 gradients for 2 inputs"):
        short(x, y).sum().backward()
    bent = f.numpy_function(np.sin, lambda g, out, a: g[:1])
    with pytest.raises(ValueError, match=r"gradient 0 of vjp has shape \(1,\); it must be \(2,\)"):
        bent(x).sum().backward()
    with pytest.raises(TypeError, match="not an array of real numbers"):
        f.numpy_function(lambda a: np.array(["x"]), lambda g, out, a: g)(x)
    one = f.numpy_function(np.add, lambda g, out, a, b: (g, None))
    one(x, y).sum().backward()
    assert x.grad.tolist() == [1, 1] and y.grad is None


def test_numpy_code_cannot_write_into_a_tensor() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        f.numpy_function(lambda a: np.multiply(a, 2, out=a), lambda g, out, a: g)(x)
    same = f.numpy_function(lambda a: a, lambda g, out, a: g)(x)
    assert same.data_ptr() != x.data_ptr()


def test_an_adjoint_that_does_not_converge_is_named() -> None:
    a = torch.zeros((), dtype=DOUBLE, requires_grad=True)
    z = f.fixed_point(lambda z, a: a + 4 * z, torch.zeros((), dtype=DOUBLE), a)  # starts where it stays
    with pytest.raises(ValueError, match="the adjoint iteration of backward diverged"):
        z.backward()


# -- the fused ones: chunks, layouts, operators -------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 8),
    st.sampled_from([-100, 3]),
    st.sampled_from(["mean", "sum"]),
    st.integers(0, 2**16),
)
def test_cross_entropy_in_chunks_of_tokens_and_of_the_vocabulary(
    chunk: int, vocabulary_chunk: int, ignore_index: int, reduction: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, weight = (torch.randn(n, 3, generator=generator, dtype=DOUBLE).requires_grad_() for n in (5, 7))
    target = torch.tensor([6, 0, ignore_index, 3, 2])

    def mine(x, weight):
        return f.linear_cross_entropy(x, weight, target, ignore_index, reduction, chunk, vocabulary_chunk)

    right = torch.nn.functional.cross_entropy(
        x @ weight.T, target, ignore_index=ignore_index, reduction=reduction
    )
    torch.testing.assert_close(mine(x, weight), right)
    assert torch.autograd.gradcheck(mine, (x, weight))


@pytest.mark.parametrize("target", [torch.full((3,), -100), torch.zeros(0, dtype=torch.int64)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_without_a_target_is_torchs(target: torch.Tensor, reduction: str) -> None:
    x, weight = torch.randn(len(target), 2, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    mine = f.linear_cross_entropy(x, weight, target, reduction=reduction, vocabulary_chunk=3)
    right = torch.nn.functional.cross_entropy(x @ weight.T, target, reduction=reduction)
    assert mine.isnan() if reduction == "mean" else mine == 0
    for a, b in zip(
        (mine, *torch.autograd.grad(mine, (x, weight))),
        (right, *torch.autograd.grad(right, (x, weight))),
        strict=True,
    ):
        torch.testing.assert_close(a, b, equal_nan=True)


def test_cross_entropy_holds_no_logits_of_the_whole_vocabulary() -> None:
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            out = op(*args, **(kwargs or {}))
            seen.extend(each.numel() for each in pytree.tree_leaves(out) if isinstance(each, torch.Tensor))
            return out

    x, weight = torch.randn(40, 2, requires_grad=True), torch.randn(100, 2, requires_grad=True)
    with Watch():
        f.linear_cross_entropy(x, weight, torch.arange(40), chunk=30, vocabulary_chunk=9).backward()
    assert max(seen) == 30 * 9  # one block; x has 80 numbers, weight 200


def _loss_op(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return f.linear_cross_entropy_op(x, weight, target, -100, True, 2, 4, True, True)[0]


def _attention_op(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return f.tiled_attention_op(q, k, v, True, 0.5)[0]


def _leaves(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


HEADS = (2, 5, 3), (2, 4, 3), (2, 4, 6)
OPERATORS = {
    "swiglu": (f.swiglu_op, f.recompute_swiglu, _leaves((2, 3), (2, 3)), ()),
    "tiled_attention": (_attention_op, lambda q, k, v: f.tiled_attention(q, k, v, True, 0.5), _leaves(*HEADS), ()),
    "linear_cross_entropy": (_loss_op, f.linear_cross_entropy, _leaves((5, 3), (6, 3)), (torch.tensor([0, 5, -100, 2, 1]),)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (f.swiglu_op, OPERATORS["swiglu"][2]),
        (f.tiled_attention_op, (*OPERATORS["tiled_attention"][2], False, 0.5)),
        (
            f.linear_cross_entropy_op,
            (*OPERATORS["linear_cross_entropy"][2], torch.arange(5), -100, True, 2, 4, True, True),
        ),
        (
            f.linear_cross_entropy_op,
            (torch.ones(5, 3), *_leaves((6, 3)), torch.arange(5), -100, False, 2, 6, False, True),
        ),
    ],
    ids=["swiglu", "tiled_attention", "linear_cross_entropy", "linear_cross_entropy-weight-only"],
)
def test_an_operator_passes_opcheck(operator, arguments) -> None:
    assert set(torch.library.opcheck(operator, tuple(arguments)).values()) == {"SUCCESS"}


@pytest.mark.parametrize(("operator", "function", "leaves", "others"), OPERATORS.values(), ids=OPERATORS)
def test_an_operator_is_one_node_of_a_compiled_graph(operator, function, leaves, others) -> None:
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    for compiled in (
        torch.compile(operator, backend=backend, fullgraph=True),
        torch.compile(operator, backend="aot_eager", fullgraph=True),
    ):
        mine, right = compiled(*leaves, *others), function(*leaves, *others)
        torch.testing.assert_close(mine, right)
        upstream = torch.rand_like(right)
        for a, b in zip(
            torch.autograd.grad(mine, leaves, upstream),
            torch.autograd.grad(right, leaves, upstream),
            strict=True,
        ):
            torch.testing.assert_close(a, b)
    (graph,) = graphs
    assert len([node for node in graph.graph.nodes if "custom_gradients" in str(node.target)]) == 1


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_takes_any_head_layout(is_causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 140, 4, dtype=DOUBLE, requires_grad=True) for _ in range(3))
    mine, right = (
        f.tiled_attention(q, k, v, is_causal),
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal),
    )
    torch.testing.assert_close(mine, right)
    upstream = torch.randn_like(right)
    for a, b in zip(
        torch.autograd.grad(mine, (q, k, v), upstream),
        torch.autograd.grad(right, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_the_support_matrix_is_fresh() -> None:
    render = runpy.run_module("helpers.functions.support_matrix")["render"]
    assert (ROOT / "docs" / "support_matrix.md").read_text(encoding="utf-8") == render(), "run `make docs`"


def test_the_page_of_the_benchmarks_is_made_of_their_numbers() -> None:
    place = ROOT / "docs" / "benchmarks" / "functions.json"
    report = json.loads(place.read_text(encoding="utf-8"))
    assert place.with_suffix(".md").read_text(encoding="utf-8") == benchmarks.page(report), "run `make bench`"
    measured = {row["benchmark"].split(",")[0] for row in report["rows"]}
    rooms = ("helpers.functions.fused", "helpers.functions.stable")
    assert {each.__name__ for each in CLASSES if each.__module__ in rooms} <= measured
