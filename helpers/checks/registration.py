"""Checks of ``exercises/01_registration.ipynb``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from .exam import Exam, exercise
from .verdict import Mistake

FORGOT_UPSTREAM = (
    "This is the local derivative alone. It is right only when the gradient that arrives is all ones, as under "
    ".sum().backward(). Multiply it by grad_output."
)
NEVER_SAVED = (
    r"has no attribute|not enough values to unpack",
    "never-saved",
    "Backward reads something that forward never left on ctx. Save it (in setup_context, or in forward on ctx) "
    "under the name that backward asks for.",
)
OTHER_COUNT = (
    r"incorrect number of gradients",
    "gradient-count",
    "Backward returns one value for each argument of forward after ctx, in the same order; numbers get None.",
)
VALUE_FOR_A_NUMBER = (
    r"gradient different than None",
    "gradient-for-a-number",
    "That argument is a plain number, not a tensor: autograd has nowhere to put a gradient for it. Return None in "
    "its place, and keep the order of forward's arguments.",
)
SAVES_A_NUMBER = (
    r"save_for_backward can only save",
    "saves-a-number",
    "save_for_backward is for tensors. A plain number goes on ctx as an attribute: ctx.delta = delta.",
)
NOT_TENSOR_GRADIENT = (
    r"expected Variable or None",
    "forgot-upstream",
    "Backward returned a bare number: the local derivative alone. Multiply grad_output by it, and it is a tensor.",
)
RETURNS_ITS_INPUT = (
    r"returned as-is as output",
    "inplace-input",
    "Forward changed the caller's tensor and handed it back. Compute a new one: x ** 3, not x.pow_(3).",
)
SELF_BESIDE_CTX = (
    r"(forward|setup_context|backward)\(\) missing \d+ required positional argument",
    "self-is-gone",
    "A static method has no self. The first argument is ctx (or, in forward beside setup_context, the input "
    "itself), and apply passes exactly what you gave it.",
)
KNOWN_EXCEPTIONS = (
    NEVER_SAVED,
    OTHER_COUNT,
    VALUE_FOR_A_NUMBER,
    SAVES_A_NUMBER,
    NOT_TENSOR_GRADIENT,
    RETURNS_ITS_INPUT,
    SELF_BESIDE_CTX,
)
STATE_ON_CLASS = (
    "Backward used the number of a later call. What sits on the class, or in a global, is shared by every use; "
    "keep what belongs to one use on its ctx."
)
SAVED_INTERMEDIATE = (
    "Backward starts from a tensor that was computed inside forward, where nothing is recorded, so the second "
    "derivative is cut off in silence. Save the inputs and compute from them again in backward."
)

COUNTS_TWICE = (
    "A tensor that is used twice is still one node, reached along two edges. Remember the nodes you have seen, and "
    "pass over one that you meet again."
)
COUNT_HINT = (
    "Start a list of nodes to visit with output.grad_fn. Take one out; if it is a node you have not seen, remember it "
    "and add the nodes in its next_functions to the list. Keep the nodes themselves, not their id()."
)


def _second_derivative(
    exam: Exam, fact: str, fn: Callable[[Tensor], Tensor], x: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient of ``fn``'s gradient against seeded weights, and those weights."""
    leaf = x.detach().clone().requires_grad_()
    arriving = upstream.clone().requires_grad_()  # as in a second backward, where it has a history of its own
    (gradient,) = exam.gradients(fact, fn, [leaf], arriving, mistakes=KNOWN_EXCEPTIONS, create_graph=True)
    if not gradient.requires_grad:
        exam.fail(
            fact,
            "The gradient has no history: it cannot be differentiated again.",
            slug="saved-intermediate",
            hint=SAVED_INTERMEDIATE,
        )
    weights = exam.randn(*x.shape, requires_grad=False)
    refused = (
        r"once_differentiable",
        "once-differentiable",
        "@once_differentiable refuses a second derivative. Here one is wanted: remove it, and compute from the inputs.",
    )
    exam.run(fact, lambda: gradient.backward(weights), [refused])
    second = torch.zeros_like(weights) if leaf.grad is None else leaf.grad
    return second, weights


def _leaves_alone(exam: Exam, fact: str, tensor: Tensor, before: Tensor, slug: str, hint: str) -> None:
    exam.close(fact, tensor.detach(), before, slug=slug, hint=hint)


@exercise("01_registration/cube")
def check_cube(exam: Exam) -> None:
    """``Cube``: y = x³ with its own backward."""
    Cube = exam.function()
    x = exam.randn(3, 2)
    before = x.detach().clone()
    y = exam.run("forward runs on a (3, 2) input", lambda: Cube.apply(x), KNOWN_EXCEPTIONS)
    exam.close("forward gives x³", y, before**3, hint="The forward is x * x * x, element by element.")
    _leaves_alone(
        exam,
        "forward leaves its input as it was",
        x,
        before,
        "inplace-input",
        "Forward changed the caller's tensor. Compute a new one: x ** 3, not x.pow_(3) or x *= x.",
    )
    node = getattr(y.grad_fn, "name", lambda: "no node")()
    exam.equal(
        "apply made one node, named after the class",
        node,
        "CubeBackward",
        slug="no-node",
        hint="The output must come out of forward itself, so that apply can hang the node on it.",
    )

    upstream = exam.randn(3, 2, requires_grad=False)
    arriving = upstream.clone()
    local = 3 * before**2
    (gradient,) = exam.gradients("backward runs", Cube.apply, [x], upstream, KNOWN_EXCEPTIONS)
    exam.close(
        "backward gives 3x² times grad_output",
        gradient,
        local * arriving,
        mistakes=[
            Mistake("forgot-upstream", local, FORGOT_UPSTREAM),
            Mistake("wrong-sign", -local * arriving, ""),
            Mistake(
                "saved-the-output",
                3 * before**6 * arriving,
                "These are the numbers of 3y²: the output was saved where the input is needed. The derivative of "
                "x³ is 3x², in terms of x.",
            ),
            Mistake(
                "power-rule",
                3 * before * arriving,
                "These are the numbers of 3x: the exponent of the derivative is one less than 3, so 3x².",
            ),
            Mistake(
                "power-rule",
                before**2 * arriving,
                "The factor 3 is missing: the exponent comes down in front, 3x².",
            ),
            Mistake(
                "added-upstream",
                local + arriving,
                "You added grad_output. The chain rule multiplies: upstream times local.",
            ),
        ],
        hint="The local derivative of x³ is 3x²; multiply it by grad_output.",
    )
    _leaves_alone(
        exam,
        "backward leaves grad_output as it was",
        upstream,
        arriving,
        "overwrites-upstream",
        "grad_output belongs to whoever made it, and other branches may read it still. Write grad_output * …, "
        "not grad_output *= … or mul_.",
    )
    one = torch.tensor(2.0, dtype=torch.float64)
    (gradient,) = exam.gradients("backward runs under a sum", lambda t: Cube.apply(t).sum(), [x], one)
    exam.close(
        "under a sum, where grad_output is one number expanded, it gives 3x² times that", gradient, 2 * local
    )

    def twice() -> None:
        output = Cube.apply(x)
        torch.autograd.grad(output, x, arriving)
        torch.autograd.grad(output, x, arriving)

    exam.raises(
        "backward frees what was saved",
        twice,
        RuntimeError,
        "A second backward through the same node ran: the tensor it needs was still there.",
        slug="tensor-on-ctx",
        hint="A tensor kept as an attribute (ctx.x = x) is never freed and never guarded against in-place changes. "
        "Use ctx.save_for_backward(x) and ctx.saved_tensors.",
    )
    second, weights = _second_derivative(
        exam, "the gradient can be differentiated again", Cube.apply, x, arriving
    )
    exam.close(
        "the second derivative is 6x",
        second,
        6 * before * arriving * weights,
        mistakes=[Mistake("saved-intermediate", torch.zeros_like(before), SAVED_INTERMEDIATE)],
        slug="saved-intermediate",
        hint=SAVED_INTERMEDIATE,
    )

    small = exam.randn(4, dtype=torch.float32)
    result = exam.run("forward runs in float32", lambda: Cube.apply(small), KNOWN_EXCEPTIONS)
    exam.close("float32 stays float32", result, small.detach() ** 3)


@exercise("01_registration/static")
def check_static(exam: Exam) -> None:
    """``Scale``: an old-style Function, made static, its number an argument."""
    Scale = exam.function()
    x = exam.randn(2, 3)
    values = x.detach().clone()
    y = exam.run(
        "Scale.apply(x, 2.5) runs",
        lambda: Scale.apply(x, 2.5),
        [
            (
                r"takes \d+ positional argument",
                "factor-not-an-argument",
                "apply hands everything to forward: after ctx, it needs a place for x and one for factor.",
            ),
            *KNOWN_EXCEPTIONS,
        ],
    )
    exam.close(
        "forward multiplies by factor",
        y,
        2.5 * values,
        hint="The output is x * factor, with the factor that was passed to apply.",
    )
    upstream = exam.randn(2, 3, requires_grad=False)
    arriving = upstream.clone()
    (gradient,) = exam.gradients(
        "backward runs", lambda t: Scale.apply(t, 2.5), [x], upstream, KNOWN_EXCEPTIONS
    )
    exam.close(
        "backward multiplies grad_output by factor",
        gradient,
        2.5 * arriving,
        mistakes=[
            Mistake("forgot-upstream", torch.full_like(values, 2.5), FORGOT_UPSTREAM),
            Mistake(
                "forgot-factor",
                arriving,
                "grad_output came back unchanged. The local derivative of x * factor is factor; multiply by it.",
            ),
            Mistake("wrong-sign", -2.5 * arriving, ""),
            Mistake(
                "multiplied-by-input",
                arriving * values,
                "You multiplied by x: that is the derivative with respect to factor, which is a plain number and "
                "gets None. For x, multiply by factor.",
            ),
        ],
        hint="The local derivative of x * factor is factor.",
    )
    _leaves_alone(
        exam,
        "backward leaves grad_output as it was",
        upstream,
        arriving,
        "overwrites-upstream",
        "grad_output belongs to whoever made it. Write grad_output * factor, not grad_output.mul_(factor).",
    )

    def two_uses(t: Tensor) -> Tensor:
        first, _ = Scale.apply(t, 0.5), Scale.apply(t, -3.0)
        return first

    (gradient,) = exam.gradients("two uses run", two_uses, [x], arriving, KNOWN_EXCEPTIONS)
    exam.close(
        "two uses keep their own factor",
        gradient,
        0.5 * arriving,
        mistakes=[Mistake("state-on-class", -3.0 * arriving, STATE_ON_CLASS)],
        slug="state-on-class",
        hint=STATE_ON_CLASS,
    )
    (gradient,) = exam.gradients(
        "a factor of zero runs", lambda t: Scale.apply(t, 0.0), [x], arriving, KNOWN_EXCEPTIONS
    )
    exam.close("a factor of zero gives a gradient of zeros", gradient, torch.zeros_like(values))


def _huber(residual: Tensor, delta: float) -> Tensor:
    size = residual.abs()
    return torch.where(size <= delta, residual**2 / 2, delta * (size - delta / 2))


@exercise("01_registration/huber")
def check_huber(exam: Exam) -> None:
    """``Huber``: the loss of the lesson, without its three faults."""
    Huber = exam.function()
    delta = 0.75
    residual = torch.tensor([[0.2, -0.6, 1.9], [-2.3, 0.05, 4.0]], dtype=torch.float64)
    target = exam.randn(2, 3)
    x = (target.detach() + residual + 0.01 * exam.rand(2, 3, requires_grad=False)).requires_grad_()
    r = (x - target).detach()
    size = r.abs()

    loss = exam.run(
        "Huber.apply(x, target, 0.75) runs", lambda: Huber.apply(x, target, delta), KNOWN_EXCEPTIONS
    )
    exam.close(
        "one loss for each residual, quadratic inside delta and linear outside",
        loss,
        _huber(r, delta),
        mistakes=[
            Mistake(
                "fixed-delta",
                _huber(r, 1.0),
                "These are the losses for delta = 1. Use the delta that was passed to apply.",
            ),
            Mistake(
                "broken-border",
                torch.where(size <= delta, r**2 / 2, delta * size),
                "The linear branch does not meet the quadratic one at |residual| = delta: there it must be "
                "delta² / 2. Write delta * (|residual| - delta / 2).",
            ),
            Mistake(
                "broken-border",
                torch.where(size <= delta, r**2 / 2, delta * (size - delta)),
                "The linear branch does not meet the quadratic one at |residual| = delta: there it must be "
                "delta² / 2. Write delta * (|residual| - delta / 2).",
            ),
            Mistake(
                "branches-swapped",
                torch.where(size > delta, r**2 / 2, delta * (size - delta / 2)),
                "Small residuals got the linear loss and large ones the quadratic. Turn the comparison round.",
            ),
            Mistake(
                "lost-half",
                torch.where(size <= delta, r**2, delta * (size - delta / 2)),
                "The quadratic branch is residual² / 2; the half is what makes its slope equal to the residual.",
            ),
            Mistake(
                "reduced",
                _huber(r, delta).mean(),
                "You returned one number. Return one loss per residual; whoever uses it takes the mean.",
            ),
            Mistake(
                "reduced",
                _huber(r, delta).sum(),
                "You returned one number. Return one loss per residual; whoever uses it takes the sum.",
            ),
        ],
        hint="Inside: residual² / 2. Outside: delta * (|residual| - delta / 2). The residual is x - target.",
    )

    upstream = exam.randn(2, 3, requires_grad=False)
    slope = r.clamp(-delta, delta)
    for_input, for_target = exam.gradients(
        "backward runs", lambda a, b: Huber.apply(a, b, delta), [x, target], upstream, KNOWN_EXCEPTIONS
    )
    exam.close(
        "the input's gradient is the residual, held within ±delta, times grad_output",
        for_input,
        slope * upstream,
        mistakes=[
            Mistake("forgot-upstream", slope, FORGOT_UPSTREAM),
            Mistake("wrong-sign", -slope * upstream, ""),
            Mistake(
                "slope-not-held",
                r * upstream,
                "Outside the border the slope must stop growing: it is delta there, with the residual's sign.",
            ),
            Mistake(
                "lost-sign",
                torch.where(size <= delta, r, torch.full_like(r, delta)) * upstream,
                "Outside the border the slope is +delta for large positive residuals and -delta for large negative "
                "ones. The sign got lost.",
            ),
            Mistake(
                "fixed-delta",
                r.clamp(-1, 1) * upstream,
                "The forward uses delta, but backward holds the slope at 1. Keep delta on ctx.",
            ),
        ],
        hint="Differentiate each branch: residual inside, delta * sign(residual) outside.",
    )
    dropped = "The target enters the loss too: its gradient is the input's with the other sign. None would be a silent zero."
    exam.close(
        "the target's gradient has the opposite sign",
        for_target,
        -slope * upstream,
        mistakes=[
            Mistake("none-gradient", None, dropped),
            Mistake(
                "same-sign",
                slope * upstream,
                "Both got the same gradient. The loss depends on x - target: the target comes in with a minus.",
            ),
            Mistake("none-gradient", torch.zeros_like(r), dropped),
        ],
        hint="The chain rule through x - target gives a factor -1.",
    )

    def two_uses(t: Tensor) -> Tensor:
        first, _ = Huber.apply(t, target, 0.75), Huber.apply(t, target, 2.0)
        return first

    (gradient,) = exam.gradients("two uses run", two_uses, [x], upstream, KNOWN_EXCEPTIONS)
    exam.close(
        "two uses keep their own delta",
        gradient,
        slope * upstream,
        mistakes=[Mistake("state-on-class", r.clamp(-2, 2) * upstream, STATE_ON_CLASS)],
        slug="state-on-class",
        hint=STATE_ON_CLASS,
    )

    second, weights = _second_derivative(
        exam, "the gradient can be differentiated again", lambda t: Huber.apply(t, target, delta), x, upstream
    )
    exam.close(
        "the second derivative is 1 inside the border and 0 outside",
        second,
        (size <= delta).double() * upstream * weights,
        mistakes=[Mistake("saved-intermediate", torch.zeros_like(r), SAVED_INTERMEDIATE)],
        slug="saved-intermediate",
        hint=SAVED_INTERMEDIATE,
    )

    edge = torch.tensor([-delta, 0.0, delta], dtype=torch.float64, requires_grad=True)
    (gradient,) = exam.gradients(
        "backward runs at 0 and at ±delta",
        lambda t: Huber.apply(t, torch.zeros_like(t), delta),
        [edge],
        torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
        KNOWN_EXCEPTIONS,
    )
    exam.close(
        "the slope is continuous: -delta, 0 and delta at those places",
        gradient,
        torch.tensor([-delta, 0.0, 3 * delta], dtype=torch.float64),
        slug="wrong-at-border",
        hint="At 0 the slope is 0, and at the border both branches agree. A division by |residual| fails at 0.",
    )
    single = exam.randn(4, dtype=torch.float32)
    result = exam.run(
        "it runs in float32", lambda: Huber.apply(single, torch.zeros_like(single), delta), KNOWN_EXCEPTIONS
    )
    exam.close("float32 stays float32", result, _huber(single.detach(), delta))


@exercise("01_registration/count_nodes")
def check_count_nodes(exam: Exam) -> None:
    """``count_nodes``: every node of the graph behind a tensor, once."""
    count = exam.answer()
    fact = "count_nodes can be called"
    if not callable(count):
        exam.fail(fact, f"`count_nodes` is a {type(count).__name__}, not a function.", slug="not-callable")
    x, w, b = exam.randn(3), exam.randn(3), exam.randn(3)
    no_graph = (
        r"NoneType.*has no attribute",
        "no-graph",
        "A tensor that nobody computed has grad_fn None, and an edge to a constant leads to None. Leave those out.",
    )
    too_deep = (
        r"RecursionError",
        "too-deep",
        "Each node took one more level of Python's stack, which ends at a few thousand. Keep a list of nodes "
        "still to visit and loop until it is empty.",
    )

    def ask(name: str, tensor: Tensor) -> Any:
        return exam.run(f"count_nodes runs on {name}", lambda: count(tensor), [no_graph, too_deep])

    def expect(name: str, tensor: Tensor, expected: int, mistakes: Sequence[Mistake] = ()) -> None:
        fact = f"{name} has {expected} node{'s' if expected != 1 else ''}"
        exam.equal(fact, ask(name, tensor), expected, mistakes, hint=COUNT_HINT)

    expect(
        "torch.stack([x, w, b]).exp().exp().exp()",
        torch.stack([x, w, b]).exp().exp().exp(),
        7,
        [
            Mistake(
                "forgets-root",
                6,
                "One node is missing: grad_fn of the tensor itself is a node too. Start with it, not with what "
                "it points to.",
            ),
            Mistake(
                "forgets-leaves",
                4,
                "The graph ends in one AccumulateGrad node for each leaf that wants a gradient; here there are "
                "three. They count.",
            ),
            Mistake(
                "one-branch",
                5,
                "You followed only one edge of each node. StackBackward0 has three, one for each of its inputs.",
            ),
            Mistake(
                "by-name",
                3,
                "Different nodes can have the same name: here ExpBackward0 and AccumulateGrad, three times each. "
                "Compare the nodes, not their names.",
            ),
            Mistake("stops-at-root", 1, "You stopped at the first node. Its next_functions lead on."),
        ],
    )
    expect(
        "2 * x.exp()",
        2 * x.exp(),
        3,
        [
            Mistake(
                "counts-none",
                4,
                "An edge that leads to a constant is (None, 0). There is no node there: do not count it.",
            )
        ],
    )
    expect("x * w * w", x * w * w, 4, [Mistake("counts-twice", 5, COUNTS_TWICE)])
    expect(
        "a leaf",
        x,
        0,
        [
            Mistake(
                "counts-leaf",
                1,
                "Nobody computed x: its grad_fn is None, so no graph stands behind it and the answer is 0.",
            )
        ],
    )
    expect("a constant", torch.ones(3), 0)
    ladder = x
    for _ in range(12):
        ladder = ladder + ladder
    expect("y = y + y, twelve times", ladder, 13, [Mistake("counts-twice", 2**13 - 1, COUNTS_TWICE)])
    chain = x
    for _ in range(5000):
        chain = chain + 1
    expect("a chain of 5000 additions", chain, 5001)
    expect("one output of torch.stack([x, w]).unbind()", torch.stack([x, w]).unbind()[1], 4)


@exercise("01_registration/custom_op")
def check_custom_op(exam: Exam) -> None:
    """``cube_operator``: x³ in PyTorch's own registry, with a fake and a gradient."""
    define = exam.answer()
    fact = "cube_operator(name) returns a custom operator"
    operator = exam.run(
        fact,
        lambda: define("exam::cube"),
        [
            (
                r"infer_schema|must have a type annotation",
                "no-annotations",
                "The operator's schema is read from the type annotations: write x: Tensor and -> Tensor.",
            ),
        ],
    )
    exam.that(
        fact,
        isinstance(operator, torch.library.CustomOpDef),
        f"It returned a {type(operator).__name__}.",
        slug="not-an-operator",
        hint="Decorate the function with @torch.library.custom_op(name, mutates_args=()), and return what that gives.",
    )
    x = exam.randn(3, 2)
    values = x.detach().clone()
    aliases = (
        r"must not also be an input",
        "returns-its-input",
        "An operator that declares mutates_args=() returns a new tensor; it neither changes its input nor hands it back.",
    )
    y = exam.run("the operator runs", lambda: operator(x), [aliases])
    exam.close("it gives x³", y, values**3, hint="The forward is x ** 3.")
    _leaves_alone(
        exam,
        "it leaves its input as it was",
        x,
        values,
        "mutates-input",
        "mutates_args=() is a promise not to write into the inputs. Compute a new tensor.",
    )
    no_rule = (
        r"no autograd formula was registered",
        "no-autograd",
        "The operator computes, but nobody told autograd its rule. Call cube.register_autograd(backward, "
        "setup_context=setup_context).",
    )
    not_registered = (
        r"does not require grad|not have been used in the graph",
        "no-autograd",
        no_rule[2],
    )
    upstream = exam.randn(3, 2, requires_grad=False)
    local = 3 * values**2
    (gradient,) = exam.gradients(
        "backward runs", operator, [x], upstream, [no_rule, not_registered, *KNOWN_EXCEPTIONS]
    )
    exam.close(
        "backward gives 3x² times grad_output",
        gradient,
        local * upstream,
        mistakes=[
            Mistake("forgot-upstream", local, FORGOT_UPSTREAM),
            Mistake("wrong-sign", -local * upstream, ""),
            Mistake(
                "saved-the-output",
                3 * values**6 * upstream,
                "These are the numbers of 3y²: setup_context saved the output where backward needs the input.",
            ),
        ],
        hint="The same rule as Cube's: 3x² times grad_output.",
    )

    no_fake = (
        r"There was no fake impl|no fake impl|UnsupportedFakeTensorException|DynamicOutputShape|data_ptr|\.numpy\(\)|"
        r"FakeTensor|fake",
        "no-fake",
        "Shapes could not be worked out without numbers. Register a fake that only describes the result: "
        "@cube.register_fake, returning torch.empty_like(x).",
    )

    def shapes_only() -> Tensor:
        with FakeTensorMode() as mode:
            return operator(mode.from_tensor(torch.zeros(5, 4, dtype=torch.float32)))

    fake = exam.run("it runs on tensors without data", shapes_only, [no_fake])
    exam.equal(
        "the fake describes the result's shape and dtype",
        (tuple(fake.shape), str(fake.dtype)),
        ((5, 4), "torch.float32"),
        slug="wrong-fake",
        hint="The fake must promise what the operator delivers: the shape, dtype and device of x. "
        "torch.empty_like(x) does.",
    )

    second, weights = _second_derivative(
        exam, "the gradient can be differentiated again", operator, x, upstream
    )
    exam.close(
        "the second derivative is 6x",
        second,
        6 * values * upstream * weights,
        mistakes=[Mistake("saved-intermediate", torch.zeros_like(values), SAVED_INTERMEDIATE)],
        slug="saved-intermediate",
        hint=SAVED_INTERMEDIATE,
    )
    exam.run(
        "torch.library.opcheck finds no fault in fake and gradient",
        lambda: torch.library.opcheck(
            operator,
            (x.detach().t().requires_grad_(),),
            test_utils=("test_autograd_registration", "test_faketensor"),
        ),
        [
            (
                r"[Ss]tride",
                "fake-strides",
                "The operator was tried on a transposed input, and its result lies in memory in another order than "
                "the fake promises. torch.empty_like(x) keeps the strides, x.new_empty(x.shape) does not.",
            ),
            (
                r"test_faketensor",
                "wrong-fake",
                "The fake promises another shape, dtype or stride than the operator delivers.",
            ),
            (r"test_autograd_registration", "no-autograd", no_rule[2]),
        ],
    )
    exam.hold("torch.library.opcheck finds no fault in fake and gradient")
