"""One battery for every Function on the shelf: what it declares is what is tested.

A ``Case`` says how to call a Function and what a trusted implementation gives; each ``check_…`` examines one promise
and raises ``AssertionError`` with the numbers when it does not hold. ``torch.compile`` runs with the ``aot_eager``
backend: it traces the Function and its backward without a graph break, and needs no C++ compiler.
"""

from __future__ import annotations

import gc
import itertools
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from helpers.functions.contract import Support, Surrogate, declared

DOUBLE = torch.float64


@dataclass(frozen=True)
class Case:
    """How to exercise one Function.

    Attributes:
        function: the class.
        call: the lowercase function, with its other arguments bound; takes the tensors.
        shapes: a shape for each tensor argument.
        reference: the same by trusted operators; ``None`` where there is none.
        low, high: range of the sampled numbers.
        elementwise: shapes are free, so that 0-d, empty and size-1 tensors make sense.
        fixed: places of tensors that are not differentiated (labels, knots).
        sample: makes the tensors from a seed, where a range is not enough.
    """

    function: type[torch.autograd.Function]
    call: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    reference: Callable[..., Tensor] | None = None
    low: float = -2.0
    high: float = 2.0
    elementwise: bool = False
    fixed: tuple[int, ...] = ()
    sample: Callable[[int], list[Tensor]] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def support(self) -> Support:
        return declared(self.function, Support)

    @property
    def surrogate(self) -> Surrogate | None:
        return declared(self.function, Surrogate)

    def inputs(
        self, seed: int = 0, dtype: torch.dtype = DOUBLE, shapes: Sequence[tuple[int, ...]] | None = None
    ) -> list[Tensor]:
        """Fresh leaves, away from zero so that kinks are not hit."""
        if self.sample is not None:
            made = self.sample(seed)
        else:
            generator = torch.Generator().manual_seed(seed)
            made = []
            for shape in shapes or self.shapes:
                unit = torch.rand(shape, generator=generator, dtype=DOUBLE)
                made.append(self.low + (self.high - self.low) * (0.05 + 0.9 * unit))
        ready = [each.to(dtype) if each.is_floating_point() else each for each in made]
        return [
            each.requires_grad_(place not in self.fixed and each.is_floating_point())
            for place, each in enumerate(ready)
        ]


def _upstream(y: Tensor, seed: int = 7) -> Tensor:
    return torch.randn(y.shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE).to(y.dtype)


def _grads(
    y: Tensor, inputs: Sequence[Tensor], upstream: Tensor | None = None, **options: bool
) -> list[Tensor]:
    wanted = [each for each in inputs if each.requires_grad]
    return list(torch.autograd.grad(y, wanted, _upstream(y) if upstream is None else upstream, **options))


def check_gradient(case: Case, seed: int = 0, shapes: Sequence[tuple[int, ...]] | None = None) -> None:
    """``gradcheck`` in slow mode; a surrogate against its stated rule, which must differ from the derivative."""
    inputs = case.inputs(seed, shapes=shapes)
    if case.surrogate is None:
        assert gradcheck(case.call, inputs, eps=1e-6, atol=1e-6, rtol=1e-4)
        return
    y = case.call(*inputs)
    upstream = _upstream(y)
    torch.testing.assert_close(_grads(y, inputs, upstream)[0], _rule(case, inputs, upstream))
    if y.numel():
        assert not gradcheck(case.call, inputs, raise_exception=False), f"{case.name} is no surrogate"


def _rule(case: Case, inputs: Sequence[Tensor], upstream: Tensor) -> Tensor:
    return case.surrogate.vjp((upstream,), *inspect_arguments(case, inputs))[0]


def inspect_arguments(case: Case, inputs: Sequence[Tensor]) -> tuple:
    """The arguments that ``apply`` got: what a surrogate's rule is written for."""
    seen: list[tuple] = []
    apply = case.function.apply
    case.function.apply = classmethod(lambda cls, *args: seen.append(args) or apply(*args))
    try:
        case.call(*inputs)
    finally:
        del case.function.apply
    return seen[0]


def check_second_derivative(case: Case, seed: int = 0) -> None:
    """``gradgradcheck``, or a declared refusal."""
    inputs = case.inputs(seed)
    if case.support.double_backward:
        if case.surrogate is None:
            assert gradgradcheck(case.call, inputs, atol=1e-5, rtol=1e-3)
        else:
            _check_rule_twice(case, inputs)
        return
    y = case.call(*inputs)
    (first, *_) = _grads((y**2).sum(), inputs, torch.tensor(1.0, dtype=DOUBLE), create_graph=True)
    try:
        first.sum().backward()
    except RuntimeError as refusal:
        if "once_differentiable" not in str(refusal):
            raise
        return
    raise AssertionError(f"{case.name} declares no double backward and does not refuse it")


def _check_rule_twice(case: Case, inputs: Sequence[Tensor]) -> None:
    """The derivative of a surrogate's gradient is the derivative of its rule."""
    y = case.call(*inputs)
    upstream = _upstream(y).requires_grad_()
    ways = []
    for gradient in (_grads(y, inputs, upstream, create_graph=True)[0], _rule(case, inputs, upstream)):
        if not gradient.requires_grad:  # a rule that is constant in everything
            ways.append([torch.zeros_like(each) for each in (upstream, *inputs)])
            continue
        ways.append(
            torch.autograd.grad(
                gradient,
                (upstream, *inputs),
                _upstream(gradient, seed=8),
                allow_unused=True,
                materialize_grads=True,
            )
        )
    for mine, right in zip(*ways, strict=True):
        torch.testing.assert_close(mine, right)


def check_value(case: Case, seed: int = 0) -> None:
    """Value and gradient equal a trusted implementation's."""
    if case.reference is None:
        return
    inputs, others = case.inputs(seed), case.inputs(seed)
    y, expected = case.call(*inputs), case.reference(*others)
    torch.testing.assert_close(y, expected)
    if case.surrogate is None:
        for mine, right in zip(_grads(y, inputs), _grads(expected, others), strict=True):
            torch.testing.assert_close(mine, right)


def check_layouts(case: Case) -> None:
    """Non-contiguous and expanded inputs and upstream gradients are numbers like any others."""
    inputs = case.inputs()
    y = case.call(*inputs)
    expected = _grads(y, inputs)
    strided = [
        torch.stack([each.detach()] * 2, -1)[..., 0].requires_grad_(each.requires_grad) for each in inputs
    ]
    again = case.call(*strided)
    torch.testing.assert_close(again, y)
    wide = torch.stack([_upstream(y)] * 2, -1)[..., 0]
    for mine, right in zip(_grads(again, strided, wide), expected, strict=True):
        torch.testing.assert_close(mine, right)
    narrow = [
        each.detach()[:1].requires_grad_() if each.requires_grad and each.dim() else each for each in inputs
    ]
    expanded = [base.expand(each.shape) for base, each in zip(narrow, inputs, strict=True)]
    for mine, right in zip(
        _grads(case.call(*expanded), narrow),
        _grads(case.call(*(each.contiguous() for each in expanded)), narrow),
        strict=True,
    ):
        torch.testing.assert_close(mine, right)
    one = torch.tensor(0.5, dtype=y.dtype)
    for mine, right in zip(
        _grads(case.call(*inputs), inputs, one.expand(y.shape)),
        _grads(case.call(*inputs), inputs, torch.full_like(y, 0.5)),
        strict=True,
    ):
        torch.testing.assert_close(mine, right)


def check_subsets(case: Case) -> None:
    """Each subset of inputs that requires a gradient gets the same one as before."""
    inputs = case.inputs()
    places = [place for place, each in enumerate(inputs) if each.requires_grad]
    full = dict(zip(places, _grads(case.call(*inputs), inputs), strict=True))
    for size in range(1, len(places)):
        for chosen in itertools.combinations(places, size):
            some = [
                each.detach().clone().requires_grad_(place in chosen) for place, each in enumerate(inputs)
            ]
            for place, mine in zip(chosen, _grads(case.call(*some), some), strict=True):
                torch.testing.assert_close(mine, full[place])


def check_dtypes(case: Case) -> None:
    """Every promised dtype comes back as it went in, value and gradient near those of float64."""
    exact = case.inputs()
    right = case.call(*exact)
    right_grads = _grads(right, exact)
    for dtype in case.support.dtypes:
        inputs = case.inputs(dtype=dtype)
        y = case.call(*inputs)
        assert y.dtype == dtype, f"{dtype} in, {y.dtype} out"
        grads = _grads(y, inputs)
        assert all(each.dtype == dtype for each in grads)
        tolerance = {torch.float32: 1e-4, torch.bfloat16: 5e-2}.get(dtype, 1e-12)
        if case.surrogate is None:
            torch.testing.assert_close(y.double(), right.detach(), rtol=tolerance, atol=tolerance)
        for mine, exactly in zip(grads, right_grads, strict=True):
            torch.testing.assert_close(mine.double(), exactly, rtol=tolerance, atol=tolerance)


def check_small_shapes(case: Case) -> None:
    """0-d, empty and size-1 tensors."""
    if not case.elementwise:
        return
    for shape in ((), (0,), (1,), (2, 0, 3)):
        inputs = case.inputs(shapes=[shape] * len(case.shapes))
        y = case.call(*inputs)
        assert y.shape == shape, f"shape {shape} in, {tuple(y.shape)} out"
        assert all(each.shape == shape for each in _grads(y, inputs)), f"a gradient has not shape {shape}"


def check_nothing_changed(case: Case) -> None:
    """Inputs and upstream are as they were, a second backward gives the same, and so does a second run."""
    inputs = case.inputs()
    before = [each.detach().clone() for each in inputs]
    y = case.call(*inputs)
    upstream = _upstream(y)
    kept = upstream.clone()
    first = _grads(y, inputs, upstream, retain_graph=True)
    second = _grads(y, inputs, upstream)
    third = _grads(case.call(*inputs), inputs, upstream)
    assert torch.equal(upstream, kept), "the upstream gradient was changed"
    for place, (a, b) in enumerate(zip(before, inputs, strict=True)):
        assert torch.equal(a, b.detach()), f"input {place} was changed"
    for a, b, c in zip(first, second, third, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c), "a second run differs from the first"


def _holds_a_tensor(value: object) -> bool:
    if isinstance(value, list | tuple | dict):
        return any(map(_holds_a_tensor, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Tensor)


def check_memory(case: Case) -> None:
    """No tensor on ctx, and the node is freed without the garbage collector."""
    inputs = case.inputs()
    y = case.call(*inputs)
    node = y.grad_fn
    while node is not None and getattr(type(node), "_forward_cls", None) is not case.function:
        node = next((each for each, _ in node.next_functions if each is not None), None)
    assert node is not None, f"{case.name} is not in the graph"
    held = [name for name, value in vars(node).items() if _holds_a_tensor(value)]
    assert not held, f"tensors on ctx: {held}"
    gc.disable()
    try:
        ghost = weakref.ref(node)
        del node, y
        assert ghost() is None, "the node is part of a reference cycle"
    finally:
        gc.enable()


def _total(case: Case) -> tuple[Callable[..., Tensor], list[Tensor], list[Tensor]]:
    """A number made of the tensors that are differentiated, those tensors, and its gradients by plain autograd."""
    plain = case.inputs()
    places = [place for place, each in enumerate(plain) if each.requires_grad]
    weight = _upstream(case.call(*plain).detach())

    def total(*differentiated: Tensor) -> Tensor:
        full = [each.detach() for each in plain]
        for place, each in zip(places, differentiated, strict=True):
            full[place] = each
        return (weight * case.call(*full)).sum()

    right = _grads(case.call(*plain), plain, weight)
    return total, [plain[place].detach() for place in places], right


def _check_vmap(case: Case) -> None:
    """``grad``, ``jacrev``, and ``vmap`` of value and gradient with every tensor batched, and with one."""
    total, points, right = _total(case)
    every = tuple(range(len(points)))
    gradient = torch.func.grad(total, argnums=every)
    jacobian = torch.func.jacrev(total, argnums=every)
    for mine in (gradient(*points), jacobian(*points)):
        for a, b in zip(mine, right, strict=True):
            torch.testing.assert_close(a, b)
    second = [0.9 * each for each in points]
    for mixed in ((0,) * len(points), *((None,) * k + (0,) + (None,) * (len(points) - k - 1) for k in every)):
        batch = [
            torch.stack([one, two], -1) if way == 0 else one
            for one, two, way in zip(points, second, mixed, strict=True)
        ]
        ways = tuple(None if way is None else -1 for way in mixed)
        other = [two if way == 0 else one for one, two, way in zip(points, second, mixed, strict=True)]
        values = torch.func.vmap(total, in_dims=ways)(*batch)
        torch.testing.assert_close(values, torch.stack([total(*points), total(*other)]))
        together = torch.func.vmap(gradient, in_dims=ways)(*batch)
        for a, b, c in zip(together, gradient(*points), gradient(*other), strict=True):
            torch.testing.assert_close(a, torch.stack([b, c]))


def _check_jvp(case: Case) -> None:
    """The pushed-forward number equals the pulled-back one: (g · v) from both sides."""
    total, points, right = _total(case)
    tangents = [_upstream(each, seed=9) for each in points]
    _, moved = torch.func.jvp(total, tuple(points), tuple(tangents))
    expected = sum((a * b).sum() for a, b in zip(right, tangents, strict=True))
    torch.testing.assert_close(moved, expected)


def _check_compile(case: Case) -> None:
    """One graph, and value and gradients as without it."""
    torch._dynamo.reset()
    arguments = inspect_arguments(case, case.inputs())
    tensors = [each for each in arguments if isinstance(each, Tensor) and each.requires_grad]
    compiled = torch.compile(case.function.apply, backend="aot_eager", fullgraph=True)
    mine, right = (
        output[0] if isinstance(output, tuple) else output
        for output in (compiled(*arguments), case.function.apply(*arguments))
    )
    torch.testing.assert_close(mine, right)
    for a, b in zip(_grads(mine, tensors), _grads(right, tensors), strict=True):
        torch.testing.assert_close(a, b)


def check_transforms(case: Case) -> None:
    """``torch.func`` and ``torch.compile`` as promised; what is not promised is refused with an error or right."""
    for promised, check in (
        (case.support.vmap, _check_vmap),
        (case.support.jvp, _check_jvp),
        (case.support.compile, _check_compile),
    ):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")  # of what is not promised
                check(case)
        except AssertionError:
            raise
        except Exception:
            if promised:
                raise


CHECKS = (
    check_gradient,
    check_second_derivative,
    check_value,
    check_layouts,
    check_subsets,
    check_dtypes,
    check_small_shapes,
    check_nothing_changed,
    check_memory,
    check_transforms,
)
