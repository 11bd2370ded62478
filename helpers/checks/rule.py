"""Did the learner write the rule? Recognise answers that let autograd, or the reference, do the work."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

AUTOGRAD_CALLS = {
    "grad",
    "backward",
    "vjp",
    "jvp",
    "jacobian",
    "jacrev",
    "jacfwd",
    "vhp",
    "hvp",
    "enable_grad",
}
"""Names that, called inside an answer, mean that autograd works out the gradient."""

NUMERICAL_LIBRARIES = {"scipy", "special", "np", "numpy"}
"""Where such names mean something else: ``scipy.special.jvp`` is the derivative of a Bessel function."""

FOREIGN_ROOMS = ("helpers.", "solutions.")


def source_of(answer: Any) -> ast.AST | None:
    """The answer's source as a syntax tree; ``None`` where Python cannot find it."""
    if inspect.isclass(answer):
        return _class_source(answer)
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(answer)))
    except (OSError, TypeError, SyntaxError):
        return None


def _class_source(answer: type) -> ast.AST | None:
    """The class statement. ``inspect`` cannot find classes of a notebook, but it can find their methods' cell."""
    for method in functions_of(answer):
        try:
            cell = ast.parse("".join(linecache.getlines(method.__code__.co_filename)))
        except SyntaxError:  # a magic in the same cell
            return source_of(method)
        for node in ast.walk(cell):
            if isinstance(node, ast.ClassDef) and node.name == answer.__name__:
                return node
    return None


def is_stub(answer: Any) -> bool:
    """True while the answer is still ``...``: the value itself, or a body that holds nothing else."""
    if answer is Ellipsis:
        return True
    if inspect.isclass(answer) and not any(functions_of(answer)) and not borrowed_from(answer):
        return answer.__module__ == "__main__" or not answer.__module__.startswith(("torch", *FOREIGN_ROOMS))
    if not inspect.isclass(answer) and not inspect.isfunction(answer):
        return False
    tree = source_of(answer)
    return tree is not None and any(_only_ellipsis(node) for node in ast.walk(tree))


def _only_ellipsis(node: ast.AST) -> bool:
    """A class where ``...`` stands for methods still to come, or a function that ends in ``...`` and returns nothing."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    waiting = [_is_constant(each, type(Ellipsis)) for each in node.body]
    if isinstance(node, ast.ClassDef):
        return any(waiting)
    return waiting[-1] and not any(isinstance(each, ast.Return) for each in ast.walk(node))


def _is_constant(node: ast.stmt, kind: type) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, kind)
    )


def functions_of(answer: Any) -> Iterator[FunctionType]:
    """The Python functions that make up an answer: itself, or the methods of a class."""
    if inspect.isfunction(answer):
        yield answer
    elif inspect.isclass(answer):
        for member in vars(answer).values():
            member = getattr(member, "__func__", member)
            if inspect.isfunction(member):
                yield member


def uses_autograd(answer: Any) -> str | None:
    """Name of the autograd call inside the answer that works out the gradient, or ``None``."""
    tree = source_of(answer)
    if tree is None:
        names = {name for function in functions_of(answer) for name in function.__code__.co_names}
        return next(iter(sorted(names & (AUTOGRAD_CALLS - {"backward"}))), None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            *path, name = ast.unparse(node.func).split(".")
            if name in AUTOGRAD_CALLS and not NUMERICAL_LIBRARIES & set(path):
                return name
    return None


def borrowed_from(answer: Any) -> str | None:
    """Dotted name of the reference that the answer is, extends or calls, or ``None`` when it stands by itself."""
    bases = answer.__mro__ if inspect.isclass(answer) else (answer,)
    for base in bases:
        if _foreign(base):
            return f"{base.__module__}.{getattr(base, '__qualname__', '?')}"
    for function in functions_of(answer):
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if _foreign(value):
                return f"{getattr(value, '__module__', None) or value.__name__}.{name}"
    return None


def _foreign(value: Any) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(home, str) and f"{home}.".startswith(FOREIGN_ROOMS)
