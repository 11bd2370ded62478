"""What the clinic knows about each kind of finding: what it is, why it matters, the cure, and where people met it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """What the clinic knows about one kind of finding.

    Attributes:
        slug: its name.
        severity: its usual severity; a probe may lower it.
        what: what was seen, in one sentence.
        why: why it happens and why it matters.
        cure: what to change.
        reports: public threads in which people met it.
    """

    slug: str
    severity: str
    what: str
    why: str
    cure: str
    reports: tuple[str, ...] = ()


_ALL = (
    Entry(
        "legacy-style",
        "warning",
        "`forward` or `backward` is not static, or the class was called instead of its `apply`.",
        "Without `@staticmethod` the first parameter, usually called `self`, is really the ctx. It happens to run "
        "through `apply`, misleads every reader, and calling an instance is an error in current PyTorch.",
        "Decorate forward and backward with @staticmethod, name their first parameter ctx, and call "
        "`TheFunction.apply(...)`.",
        ("https://pytorch.org/docs/stable/notes/extending.html",),
    ),
    Entry(
        "raises",
        "error",
        "An exception where a gradient was due.",
        "Autograd calls backward in situations that the author did not try: twice under `retain_graph`, with some "
        "inputs frozen, after another call. An exception there stops somebody's training.",
        "Make backward depend only on ctx.saved_tensors and its arguments, and leave ctx as it was found.",
        ("dmlc/dgl#1060",),
    ),
    Entry(
        "wrong-gradient-count",
        "error",
        "`backward` does not return one gradient per argument of `forward`.",
        "Gradients are matched to arguments by position, non-tensors included. Too few raise an error at the first "
        "backward; extra trailing `None`s are accepted silently and hide a misplaced one.",
        "Return exactly one value per argument of forward after ctx, with None for those that are no tensors.",
    ),
    Entry(
        "gradient-shape",
        "error",
        "A returned gradient does not fit its input's shape.",
        "The gradient of an input has the shape of that input. The engine sums away broadcast dimensions by itself, "
        "but cannot invent missing ones.",
        "Bring the gradient to the input's shape, e.g. `grad.sum_to_size(x.shape)`, `grad.expand_as(x)` or "
        "`grad.reshape(x.shape)`.",
    ),
    Entry(
        "graph-inside-forward",
        "error",
        "The Function relies on autograd recording inside `forward`, where it does not.",
        "Grad mode is off inside forward: nothing computed there has a grad_fn, although the inputs still say "
        "requires_grad=True. Differentiating it fails, or touches the caller's own graph.",
        "Write the derivative by hand, or open `with torch.enable_grad():` around a detached copy of the input.",
        ("pytorch/pytorch#133854", "pytorch/pytorch#51978"),
    ),
    Entry(
        "ignores-upstream",
        "error",
        "The gradient stays the same whatever `grad_output` is.",
        "backward must return upstream × local derivative. Without the upstream factor it is right under `.sum()`, "
        "where that factor is one, and silently wrong in every larger network.",
        "Multiply the local derivative by grad_output.",
        ("https://pytorch.org/docs/stable/notes/extending.html",),
    ),
    Entry(
        "missing-gradient",
        "error",
        "`None` or zeros for an input that the output depends on.",
        "The engine takes None for zero: the parameter behind that input silently never learns. Often it is an input "
        "that was a constant in the author's own use.",
        "Return its gradient too, guarded by `ctx.needs_input_grad`; if stopping it is on purpose, declare a "
        "Surrogate.",
        ("pytorch/pytorch#56500",),
    ),
    Entry(
        "wrong-gradient",
        "error",
        "The gradient disagrees with finite differences at every step size.",
        "The formula in backward is not the derivative of what forward computes. Training may still go down, only "
        "slower or to the wrong place.",
        "Derive the vector-Jacobian product again; if the departure is on purpose, declare it with a Surrogate.",
        ("https://pytorch.org/docs/stable/notes/gradcheck.html",),
    ),
    Entry(
        "mutable-state",
        "error",
        "`backward` reads something that may have changed since `forward`.",
        "Between the two anything can happen: another call, another setting, other random numbers. The gradient then "
        "belongs to a function that was never computed, without any error.",
        "Pass it as an argument or draw it once in forward, keep it on ctx (tensors through save_for_backward), and "
        "read only that in backward.",
    ),
    Entry(
        "nondeterministic",
        "warning",
        "The same inputs and the same random state give different results.",
        "No test can tell such a Function from a wrong one, and no run can be repeated.",
        "Take random numbers from torch's generator, and remove time, addresses and the order of sets from the "
        "computation.",
        ("pytorch/pytorch#18619",),
    ),
    Entry(
        "inplace-input",
        "error",
        "`forward` overwrites its input without `ctx.mark_dirty`.",
        "Autograd does not know that the input changed: operations that used it before now have wrong gradients, and "
        "the caller's tensor is not what it was.",
        "Work on a copy, or call ctx.mark_dirty(x) and return x.",
        ("pytorch/pytorch#160317",),
    ),
    Entry(
        "inplace-grad-output",
        "error",
        "`backward` writes into `grad_output`.",
        "grad_output belongs to the caller and may be shared with other branches, or be expanded so that many "
        "elements lie on one place in memory: then it is an error, otherwise silently wrong numbers elsewhere.",
        "Use the out-of-place operation: `grad_output * 2`, not `grad_output.mul_(2)`.",
    ),
    Entry(
        "inplace-saved",
        "error",
        "`backward` changes what was saved, so that a second backward differs.",
        "Saved inputs and outputs are the caller's own tensors, not copies. Writing into them changes the model's "
        "values, and the next backward under retain_graph starts from the changed ones.",
        "Make a new tensor in backward instead of writing into a saved one.",
        ("pytorch/pytorch#18619",),
    ),
    Entry(
        "assumes-contiguous",
        "error",
        "The result depends on how a tensor lies in memory.",
        "`.sum()` sends an expanded upstream gradient of stride 0, and a transpose sends a transposed one. Code that "
        "reads memory in order, or calls `.view`, then gets other numbers or an error.",
        "Call `.contiguous()` before reading raw memory, and `.reshape` instead of `.view`.",
        ("Dao-AILab/flash-attention#355", "pytorch/pytorch#64529"),
    ),
    Entry(
        "unhandled-none",
        "error",
        "An upstream gradient arrives as `None` and backward computes with it.",
        "After `ctx.set_materialize_grads(False)` the gradient of an output that nobody used is None, not zeros.",
        "Test each upstream gradient with `is None` first, or leave materialising on.",
    ),
    Entry(
        "nan-gradient",
        "error",
        "The value is finite and its gradient is NaN (or infinite where the true slope is finite).",
        "0 · inf is NaN, and so is the gradient of a branch that `where` did not take. One such number turns every "
        "weight into NaN at the next step.",
        "Keep the argument of the dangerous operation in its safe region in both branches (the double where), or "
        "write the limit into backward.",
        ("https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where",),
    ),
    Entry(
        "non-finite-forward",
        "warning",
        "Finite inputs give NaN or an infinite value.",
        "Something on the way overflows or leaves its domain; no gradient can be right there.",
        "Use the stable form (logsumexp, softplus, log1p, expm1), or refuse such inputs with an error.",
    ),
    Entry(
        "dtype-loss",
        "warning",
        "Numbers pass through a coarser dtype than the input's.",
        "The engine silently casts a float32 gradient back to float64: half of the digits are gone, gradcheck fails "
        "at random, and nobody is told.",
        "Create tensors with `new_zeros`, `zeros_like` or `dtype=x.dtype`, and cast back only at the end.",
        ("CharlesShang/DCNv2#13",),
    ),
    Entry(
        "saved-intermediate",
        "error",
        "The second derivative is silently wrong, because what was saved is neither input nor output.",
        "An intermediate is computed in forward without a graph. Differentiating backward takes it for a constant: "
        "its share of the second derivative is lost without an error.",
        "Save inputs and outputs and compute the intermediate again in backward, or refuse with @once_differentiable.",
        ("pytorch/pytorch#58509", "pytorch/pytorch#76185", "pytorch/pytorch#104040"),
    ),
    Entry(
        "undeclared-once-differentiable",
        "warning",
        "`backward` leaves the graph, and nothing says so.",
        "A gradient made with NumPy, `.data`, `.detach()` or under no_grad cannot be differentiated again: penalties "
        "on gradients silently get no gradient.",
        "Put @once_differentiable on backward, so that a second derivative is refused with a clear error; or compute "
        "with differentiable operations.",
        ("pytorch/pytorch#104040",),
    ),
    Entry(
        "tensor-on-ctx",
        "warning",
        "A tensor is kept as an attribute of ctx, outside `save_for_backward`.",
        "Attributes have no version check (an in-place change is not noticed), are not freed by backward, escape "
        "saved-tensor hooks, and an output kept so holds itself alive until the garbage collector runs.",
        "Hand tensors to ctx.save_for_backward(...); keep only numbers, shapes and flags on ctx.",
        ("pytorch/pytorch#5569", "pytorch/pytorch#94990"),
    ),
    Entry(
        "kink",
        "note",
        "The sample point lies on a kink or a jump.",
        "The slopes on both sides differ, so finite differences cannot judge the gradient there. Any value between "
        "them is a subgradient.",
        "Nothing to cure; examine the Function at a smooth point as well.",
    ),
    Entry(
        "low-precision-check",
        "note",
        "The inputs are in low precision; plain gradcheck would report a mismatch.",
        "A central difference in float32 is right to about three digits, fewer than gradcheck's default tolerance.",
        "Check gradients with `.double()` inputs; train in whatever precision you like.",
        ("CharlesShang/DCNv2#13",),
    ),
    Entry(
        "no-setup-context",
        "note",
        "The combined `forward(ctx, ...)` style.",
        "It is fine for `.backward()`, but torch.func.grad, vmap and jacrev need forward and setup_context apart.",
        "Split it if you want torch.func: `forward(x)` and `setup_context(ctx, inputs, output)`.",
        ("https://pytorch.org/docs/stable/notes/extending.func.html",),
    ),
    Entry(
        "needless-gradient",
        "note",
        "A gradient is computed for an input that does not need one.",
        "The engine throws it away. With frozen layers that can be half of the work.",
        "Guard it: `if ctx.needs_input_grad[i]:`.",
        ("pytorch/pytorch#56500",),
    ),
    Entry(
        "declared-surrogate",
        "note",
        "The gradient departs from the derivative on purpose, and was checked against its declared rule.",
        "Straight-through, reversal, clipping and stop-gradient must fail gradcheck; the rule is what they promise.",
        "Nothing to cure.",
    ),
)

ENTRIES = {entry.slug: entry for entry in _ALL}
ORDER = tuple(ENTRIES)
