"""Bridges to code that autograd cannot see: NumPy, SciPy, fixed points, simulators.

Backward leaves torch here, so a second derivative would be silently missing; every class is ``once_differentiable``
and refuses it with an error. None works under ``vmap`` or ``torch.compile``: outside code does not know them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.interpolate
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import arguments
from .contract import Support

FLOATS = (torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

NumpyForward = Callable[..., np.ndarray]
NumpyVJP = Callable[..., np.ndarray | Sequence[np.ndarray | None]]


def _array(x: Tensor) -> np.ndarray:
    """The numbers of ``x``, read-only: they share its memory, and outside code must not write there."""
    array = x.detach().cpu().numpy()
    array.flags.writeable = False
    return array


def _tensor(value: object, like: Tensor, shape: Sequence[int] | None, what: str) -> Tensor:
    """A copy of a result of outside code, as a tensor of ``like``'s dtype and device.

    A copy, for the result may be a view of an input.

    Raises:
        TypeError: it is not an array of numbers.
        ValueError: it has another shape than ``shape``, when there is one.
    """
    try:
        found = np.array(value, order="C")
    except ValueError:  # a ragged list
        found = np.array(None)
    if found.dtype.kind not in "fiub":
        raise TypeError(f"{what} is {_described(value)}, not an array of real numbers.")
    if shape is not None and found.shape != tuple(shape):
        raise ValueError(f"{what} has shape {found.shape}; it must be {tuple(shape)}.")
    return torch.as_tensor(found, dtype=like.dtype, device=like.device)


def _described(value: object) -> str:
    kind = type(value).__name__
    return f"{kind} of {value.dtype}" if isinstance(value, np.ndarray) else kind


def _same_kind(**tensors: Tensor) -> None:
    """Require floating tensors of one device and one dtype that NumPy and SciPy compute with.

    Raises:
        TypeError, ValueError: as ``arguments.same_kind``, or the dtype is neither float32 nor float64.
    """
    arguments.same_kind(**tensors)
    name, tensor = next(iter(tensors.items()))
    if tensor.dtype not in FLOATS:
        raise TypeError(f"{name} has dtype {tensor.dtype}; outside torch it must be float32 or float64.")


def numpy_function(forward: NumpyForward, vjp: NumpyVJP) -> Callable[..., Tensor]:
    """Make a differentiable function of a pair of NumPy functions.

    Args:
        forward: ``forward(*arrays) -> array``.
        vjp: ``vjp(grad_output, output, *arrays)`` returns the gradient for each array: one array for a single input,
            else a sequence with one entry per input, ``None`` where there is none.

    Both get read-only arrays: writing into one would change the caller's tensor.

    Returns:
        A function of float32 or float64 tensors of one dtype and device. Its result has that dtype and device;
        gradients reach every input. Differentiable once.

    Raises (when the returned function is used):
        TypeError: an input is no float32 or float64 tensor, or ``forward`` or ``vjp`` returns no real numbers.
        ValueError: ``vjp`` returns too many or too few gradients, or one of the wrong shape.

    >>> sine = numpy_function(np.sin, lambda g, y, x: g * np.cos(x))
    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> sine(x).sum().backward()
    >>> x.grad
    tensor([1.0000, 0.5403])
    """

    class NumpyFunction(torch.autograd.Function):
        support = Support(False, False, False, False, FLOATS, "inputs, output")

        @staticmethod
        def forward(*inputs: Tensor) -> Tensor:
            return _tensor(forward(*map(_array, inputs)), inputs[0], None, "the result of forward")

        @staticmethod
        def setup_context(ctx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            ctx.save_for_backward(output, *inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
            output, *inputs = ctx.saved_tensors
            grads = vjp(_array(grad_output), _array(output), *map(_array, inputs))
            if len(inputs) == 1 and not isinstance(grads, tuple | list):
                grads = (grads,)
            if not isinstance(grads, tuple | list) or len(grads) != len(inputs):
                count = len(grads) if isinstance(grads, tuple | list) else 1
                raise ValueError(
                    f"vjp returned {count} gradients for {len(inputs)} inputs; return one for each, None where there is none."
                )
            return tuple(
                None if grad is None else _tensor(grad, x, x.shape, f"gradient {place} of vjp")
                for place, (grad, x) in enumerate(zip(grads, inputs, strict=True))
            )

    def function(*inputs: Tensor) -> Tensor:
        if not inputs:
            raise TypeError("a function made by numpy_function needs at least one tensor.")
        _same_kind(**{f"input {place}": x for place, x in enumerate(inputs)})
        return NumpyFunction.apply(*inputs)

    function.function_class = NumpyFunction
    return function


class CubicSpline(torch.autograd.Function):
    r"""SciPy's natural cubic spline through the points (knots, values), evaluated at ``x``.

    ``apply(x, knots, values)``. The spline is *linear* in its values, y = B(x) · values, so

    .. math::
        \bar x = \bar y\,s'(x), \qquad \bar v = B(x)^\top \bar y

    The columns of B are the splines through unit vectors. The knots get no gradient; ``cubic_spline`` refuses knots
    that ask for one. Saves its inputs. Differentiable once. Source: ``scipy.interpolate.CubicSpline``.
    """

    support = Support(False, False, False, False, FLOATS, "x, knots, values")

    @staticmethod
    def forward(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        spline = scipy.interpolate.CubicSpline(_array(knots), _array(values), bc_type="natural")
        return _tensor(spline(_array(x)), x, x.shape, "the spline")

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        x, knots, values = ctx.saved_tensors
        grad_x = grad_values = None
        if ctx.needs_input_grad[0]:
            spline = scipy.interpolate.CubicSpline(_array(knots), _array(values), bc_type="natural")
            grad_x = grad_output * _tensor(spline(_array(x), 1), x, x.shape, "the slope")
        if ctx.needs_input_grad[2]:
            basis = scipy.interpolate.CubicSpline(_array(knots), np.eye(len(knots)), bc_type="natural")
            rows = basis(_array(x).reshape(-1))
            grad_values = _tensor(
                _array(grad_output).reshape(-1) @ rows, values, values.shape, "the gradient of values"
            )
        return grad_x, None, grad_values


def cubic_spline(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Natural cubic spline through the points (knots, values), at ``x``; gradients for ``x`` and ``values``.

    Args:
        x: any shape; beyond the knots the outermost cubics go on.
        knots: shape (k,), increasing, k at least 2, without ``requires_grad``.
        values: shape (k,). All float32 or all float64.

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.
    """
    _same_kind(x=x, knots=knots, values=values)
    if knots.dim() != 1 or values.shape != knots.shape or len(knots) < 2:
        raise ValueError(
            f"knots and values have shapes {tuple(knots.shape)} and {tuple(values.shape)}; both must be (k,) with k at least 2."
        )
    if not bool((knots.detach().diff() > 0).all()):
        raise ValueError("knots must increase from each to the next.")
    if knots.requires_grad:
        raise ValueError("knots requires a gradient, and the spline has none for them; pass knots.detach().")
    return CubicSpline.apply(x, knots, values)


class SparseSolve(torch.autograd.Function):
    r"""``x`` with ``A x = b`` for a sparse matrix, solved by SciPy.

    ``apply(values, b, rows, columns)``: A has ``values[k]`` at (rows[k], columns[k]). No derivative of the solver is
    needed, only one more solve, with the transposed matrix:

    .. math::
        A^\top \lambda = \bar x, \qquad \bar b = \lambda, \qquad \bar A_{ij} = -\lambda_i\,x_j

    and only the entries of Ā that A has are ever computed. Saves values, places and solution. Differentiable once.
    Source: M. Giles (2008), "Collected Matrix Derivative Results for Forward and Reverse Mode AD".
    """

    support = Support(False, False, False, False, FLOATS, "values, output, places")

    @staticmethod
    def forward(values: Tensor, b: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return _tensor(_solve(values, rows, columns, _array(b), transposed=False), b, b.shape, "the solution")

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        values, _, rows, columns = inputs
        ctx.save_for_backward(values, rows, columns, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        values, rows, columns, x = ctx.saved_tensors
        adjoint = _tensor(
            _solve(values, rows, columns, _array(grad_output), transposed=True), x, x.shape, "the adjoint"
        )
        grad_values = -(adjoint[rows] * x[columns]) if ctx.needs_input_grad[0] else None
        return grad_values, adjoint, None, None


def _solve(values: Tensor, rows: Tensor, columns: Tensor, b: np.ndarray, transposed: bool) -> np.ndarray:
    entries = _array(values).astype(np.float64), (_array(rows), _array(columns))
    matrix = scipy.sparse.csc_matrix(entries, shape=(len(b), len(b)))
    try:
        return scipy.sparse.linalg.splu(matrix).solve(b.astype(np.float64), trans="T" if transposed else "N")
    except RuntimeError as error:
        raise ValueError(f"the matrix has no inverse ({error}); check its values and places.") from error


def sparse_solve(values: Tensor, rows: Tensor, columns: Tensor, b: Tensor) -> Tensor:
    """Solve ``A x = b`` for the sparse matrix with ``values[k]`` at (rows[k], columns[k]).

    Args:
        values: shape (m,), float32 or float64.
        rows, columns: shape (m,), whole numbers from 0 to n - 1; entries at one place are added.
        b: shape (n,), the dtype of values.

    Raises:
        TypeError, ValueError: an argument is not as described, or the matrix has no inverse.
    """
    _same_kind(values=values, b=b)
    if values.dim() != 1 or b.dim() != 1 or not len(b):
        raise ValueError(
            f"values and b have shapes {tuple(values.shape)} and {tuple(b.shape)}; they must be (m,) and (n,), n at least 1."
        )
    for name, places in (("rows", rows), ("columns", columns)):
        if not isinstance(places, Tensor) or places.dtype not in WHOLE or places.shape != values.shape:
            raise ValueError(f"{name} must be whole numbers of values' shape {tuple(values.shape)}.")
        if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < len(b):
            raise ValueError(f"{name} must lie between 0 and {len(b) - 1}, for b has {len(b)} numbers.")
    return SparseSolve.apply(values, b, rows, columns)


class FixedPoint(torch.autograd.Function):
    r"""The z with ``z = f(z, *parameters)``, differentiated without looking at the iterations that found it.

    At the fixed point the implicit function theorem gives, with J the Jacobian of f in z,

    .. math::
        w = \bar z + J^\top w, \qquad \bar\theta = \Bigl(\frac{\partial f}{\partial \theta}\Bigr)^{\!\top} w

    and w is itself a fixed point, found by the same kind of iteration from VJPs of one evaluation of f. Memory does
    not grow with the number of iterations. ``apply(f, z0, tolerance, max_iter, *parameters)``.

    Saves the fixed point and the parameters. Differentiable once.
    Source: M. Blondel et al. (2022), "Efficient and Modular Implicit Differentiation", arXiv:2105.15183; S. Bai et al.
    (2019), "Deep Equilibrium Models", arXiv:1909.01377.
    """

    support = Support(False, False, False, False, FLOATS, "output, parameters")

    @staticmethod
    def forward(
        f: Callable[..., Tensor], z0: Tensor, tolerance: float, max_iter: int, *parameters: Tensor
    ) -> Tensor:
        return _iterate(lambda z: f(z, *parameters), z0, tolerance, max_iter, "the iteration")

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.f, _, ctx.tolerance, ctx.max_iter, *parameters = inputs
        ctx.save_for_backward(output, *parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        z, *parameters = (each.detach() for each in ctx.saved_tensors)
        needs = ctx.needs_input_grad[4:]
        wanted = [
            parameter.requires_grad_() for parameter, need in zip(parameters, needs, strict=True) if need
        ]
        with torch.enable_grad():  # one evaluation of f, for its VJPs
            fz = ctx.f(z.requires_grad_(), *parameters)

        def adjoint(w: Tensor) -> Tensor:
            (through_z,) = torch.autograd.grad(fz, z, w, retain_graph=True, materialize_grads=True)
            return grad_output + through_z

        w = _iterate(adjoint, grad_output, ctx.tolerance, ctx.max_iter, "the adjoint iteration of backward")
        grads = iter(torch.autograd.grad(fz, wanted, w, allow_unused=True))
        return None, None, None, None, *(next(grads) if need else None for need in needs)


def _iterate(
    step: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, max_iter: int, what: str
) -> Tensor:
    """Repeat ``step`` until it moves its argument no further."""
    z, moved = start, 0.0
    for count in range(1, max_iter + 1):
        z, last = step(z), z
        if not z.numel():
            break
        moved = float((z - last).abs().max())
        if not math.isfinite(moved):
            raise ValueError(f"{what} diverged: not finite after {count} steps. Is the map a contraction?")
        if moved <= tolerance * (1 + float(z.abs().max())):
            break
    else:
        raise ValueError(
            f"no fixed point after {max_iter} iterations: the last step of {what} still moved by {moved:.2g}. Is the map a contraction?"
        )
    return z.clone()  # f may have returned its argument or a parameter


def fixed_point(
    f: Callable[..., Tensor],
    z0: Tensor,
    *parameters: Tensor,
    tolerance: float | None = None,
    max_iter: int = 1000,
) -> Tensor:
    """The fixed point of ``z -> f(z, *parameters)`` reached from ``z0``; gradients for the parameters.

    Args:
        f: a contraction in z, of torch operators, giving z's shape and dtype. Every tensor with ``requires_grad`` that
            it uses must be among ``parameters``, where its gradient can reach it; one hidden in a closure is refused.
        z0: where to start; it gets no gradient, for the fixed point does not depend on it.
        parameters: floating tensors.
        tolerance: relative movement at which to stop; by default ten times the dtype's unit round-off.
        max_iter: iterations to try.

    Raises:
        TypeError, ValueError: an argument is not as described, or the iteration does not converge (in backward: that
            of the adjoint).

    >>> a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    >>> z = fixed_point(lambda z, a: a * torch.cos(z), torch.zeros((), dtype=torch.float64), a)
    >>> z.backward()
    >>> round(z.item(), 4), round(a.grad.item(), 4)
    (0.4502, 0.7395)
    """
    arguments.floating("z0", z0)
    for place, parameter in enumerate(parameters):
        arguments.floating(f"parameter {place}", parameter)
    tolerance = (
        10 * torch.finfo(z0.dtype).eps
        if tolerance is None
        else arguments.number("tolerance", tolerance, above=0)
    )
    if isinstance(max_iter, bool) or not isinstance(max_iter, int) or max_iter < 1:
        raise ValueError(f"max_iter is {max_iter}; it must be a whole number of at least 1.")
    once = f(z0.detach(), *(parameter.detach() for parameter in parameters))
    if not isinstance(once, Tensor) or once.shape != z0.shape or once.dtype != z0.dtype:
        found = (
            f"{once.dtype} of shape {tuple(once.shape)}" if isinstance(once, Tensor) else type(once).__name__
        )
        raise ValueError(
            f"f gives {found} for z of {z0.dtype} and shape {tuple(z0.shape)}; they must be the same."
        )
    if once.requires_grad:
        raise ValueError(
            "f uses a tensor that requires a gradient and is not among parameters, where it would get none; pass it there."
        )
    return FixedPoint.apply(f, z0.detach(), tolerance, max_iter, *parameters)


GRAVITY = 9.81  # metres per second squared


class Pendulum(torch.autograd.Function):
    r"""A damped pendulum, integrated in NumPy by the midpoint rule; its gradient by the discrete adjoint.

    .. math::
        \dot\theta = \omega, \qquad \dot\omega = -\frac{g}{L}\sin\theta - c\,\omega

    ``apply(parameters, steps, dt, gradient)`` with ``parameters`` = (length, damping, start angle); gives the angle
    after each step, shape (steps,). ``gradient="adjoint"`` goes back through the steps once, whatever the number of
    parameters; ``"difference"`` runs the simulator twice for each of them, knowing nothing of its inside.

    Saves the parameters; backward simulates again. Differentiable once.
    """

    support = Support(False, False, False, False, FLOATS, "parameters")

    @staticmethod
    def forward(parameters: Tensor, steps: int, dt: float, gradient: str) -> Tensor:
        return _tensor(
            _swing(_array(parameters).astype(float), steps, dt)[1:, 0], parameters, (steps,), "the simulation"
        )

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, int, float, str], output: Tensor) -> None:
        parameters, ctx.steps, ctx.dt, ctx.gradient = inputs
        ctx.save_for_backward(parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        (parameters,) = ctx.saved_tensors
        p, upstream = _array(parameters).astype(float), _array(grad_output).astype(float)
        pull = _adjoint if ctx.gradient == "adjoint" else _differences
        return (
            _tensor(pull(p, upstream, ctx.steps, ctx.dt), parameters, (3,), "the gradient"),
            None,
            None,
            None,
        )


def _swing(p: np.ndarray, steps: int, dt: float) -> np.ndarray:
    """Angle and angular velocity at each step, shape (steps + 1, 2)."""
    pull, damping = GRAVITY / p[0], p[1]
    angle, speed = float(p[2]), 0.0
    path = np.empty((steps + 1, 2))
    path[0] = angle, speed
    for k in range(steps):
        middle = angle + dt / 2 * speed
        middle_speed = speed + dt / 2 * (-pull * math.sin(angle) - damping * speed)
        angle += dt * middle_speed
        speed += dt * (-pull * math.sin(middle) - damping * middle_speed)
        path[k + 1] = angle, speed
    return path


def _adjoint(p: np.ndarray, upstream: np.ndarray, steps: int, dt: float) -> np.ndarray:
    """The gradient of <upstream, angles> by each parameter: the steps of ``_swing`` in reverse, one VJP each."""
    path = _swing(p, steps, dt)
    pull, damping = GRAVITY / p[0], p[1]
    a = s = grad_pull = grad_damping = 0.0
    for k in range(steps - 1, -1, -1):
        angle, speed = path[k]
        middle = angle + dt / 2 * speed
        middle_speed = speed + dt / 2 * (-pull * math.sin(angle) - damping * speed)
        a += upstream[k]
        m, w = -dt * pull * math.cos(middle) * s, dt * a - dt * damping * s
        grad_pull += -dt * math.sin(middle) * s - dt / 2 * math.sin(angle) * w
        grad_damping += -dt * middle_speed * s - dt / 2 * speed * w
        a, s = (
            a + m - dt / 2 * pull * math.cos(angle) * w,
            s + dt / 2 * m + (1 - dt / 2 * damping) * w,
        )
    return np.array([-grad_pull * GRAVITY / p[0] ** 2, grad_damping, a])


def _differences(p: np.ndarray, upstream: np.ndarray, steps: int, dt: float) -> np.ndarray:
    gradient = np.empty(3)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 6e-6 * (p[k] if k == 0 else max(abs(p[k]), 1.0))  # a length stays above 0
        difference = _swing(p + step, steps, dt)[1:, 0] - _swing(p - step, steps, dt)[1:, 0]
        gradient[k] = upstream @ difference / (2 * step[k])
    return gradient


def simulate(parameters: Tensor, steps: int = 200, dt: float = 0.02, gradient: str = "adjoint") -> Tensor:
    """The angles (radians) of a damped pendulum after each of ``steps`` steps of ``dt`` seconds.

    Args:
        parameters: shape (3,), floating: length in metres (> 0), damping in 1/s (at least 0), start angle in radians.
        gradient: "adjoint" or "difference".

    Raises:
        TypeError, ValueError: an argument is not as described; the message names it.

    >>> simulate(torch.tensor([1.0, 0.1, 0.3]), steps=3, dt=0.1)
    tensor([0.2855, 0.2430, 0.1768])
    """
    arguments.floating("parameters", parameters)
    if parameters.shape != (3,):
        raise ValueError(
            f"parameters has shape {tuple(parameters.shape)}; it must be (3,): length, damping, start angle."
        )
    length, damping, angle = parameters.detach().tolist()
    arguments.number("length", length, above=0)
    arguments.number("damping", damping, least=0)
    arguments.number("start angle", angle)
    arguments.number("dt", dt, above=0)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps is {steps}; it must be a whole number of at least 1.")
    if gradient not in ("adjoint", "difference"):
        raise ValueError(f"gradient is {gradient!r}; allowed are 'adjoint' and 'difference'.")
    return Pendulum.apply(parameters, steps, float(dt), gradient)
