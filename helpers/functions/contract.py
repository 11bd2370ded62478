"""What a custom gradient promises, declared once for tests, docs, lessons and the clinic.

Two declarations live on a Function as class attributes:

``support``
    which transforms and dtypes it works under, and what it keeps between forward and backward;
``surrogate``
    that its backward departs from the true derivative *on purpose*, and by which rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Support:
    """The transforms a Function works under.

    Attributes:
        double_backward: its gradient can be differentiated again; ``False`` means it refuses with an error
            (``once_differentiable``), never that it is silently wrong.
        vmap: works under ``torch.func.vmap``.
        jvp: forward-mode derivatives (``torch.func.jvp``).
        compile: works under ``torch.compile`` without a graph break.
        dtypes: floating dtypes it is tested with.
        saves: what is kept between forward and backward, in words.
    """

    double_backward: bool
    vmap: bool
    jvp: bool
    compile: bool
    dtypes: tuple[torch.dtype, ...]
    saves: str


@dataclass(frozen=True)
class Surrogate:
    """A backward that is not the derivative of its forward, and says so.

    Attributes:
        rule: the rule in one line of maths, e.g. ``"grad_input = -scale * grad_output"``.
        vjp: the same rule as code, ``vjp(grad_outputs, *inputs)``: a tuple of upstream gradients and the
            arguments of ``apply`` in, one gradient (or ``None``) per argument out.
    """

    rule: str
    vjp: Callable[..., Sequence[Tensor | None]]


Declaration = TypeVar("Declaration", Support, Surrogate)


def declared(fn: object, kind: type[Declaration]) -> Declaration | None:
    """Return the ``Support`` or ``Surrogate`` that ``fn`` declares, or ``None``.

    Args:
        fn: an ``autograd.Function`` class, its ``apply``, or any object with the attribute.
        kind: ``Support`` or ``Surrogate``.
    """
    owner = getattr(fn, "__self__", fn)
    declaration = getattr(owner, kind.__name__.lower(), None)
    return declaration if isinstance(declaration, kind) else None
