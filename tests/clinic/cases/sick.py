"""Sick Functions, each with the findings that the clinic must name."""

from __future__ import annotations

import random
import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.autograd import Function

from helpers.functions.contract import Surrogate

from .case import Case, case, noise

CASES: list[Case] = []
sick = case(CASES)

threshold = 0.7
settings = {"slope": 0.2}
last_seen: dict[str, torch.Tensor] = {}


def elementwise(forward, backward):
    """Return a Function from a value and a rule of upstream, input and output."""

    class Elementwise(Function):
        @staticmethod
        def forward(ctx, x):
            y = forward(x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            return backward(grad_output, *ctx.saved_tensors)

    return Elementwise.apply


# --- values ---------------------------------------------------------------------------------------------------


@sick("wrong-gradient")
def sign_turned():
    return elementwise(torch.cos, lambda g, x, y: g * x.sin()), (noise(4),)


@sick("wrong-gradient")
def factor_two_dropped():
    return elementwise(lambda x: x * x, lambda g, x, y: g * x), (noise(4),)


@sick("wrong-gradient")
def factor_of_the_output_missing():
    return elementwise(lambda x: (x * x).exp(), lambda g, x, y: 2 * x * g), (noise(4),)


@sick("wrong-gradient")
def product_rule_term_dropped():
    return elementwise(lambda x: x * x.sigmoid(), lambda g, x, y: g * x.sigmoid()), (noise(4),)


@sick("wrong-gradient")
def extra_term_forgotten():
    return elementwise(lambda x: x**2 + 3 * x, lambda g, x, y: 2 * x * g), (noise(4),)


@sick("wrong-gradient")
def softmax_diagonal_only():
    return elementwise(lambda x: x.softmax(-1), lambda g, x, y: g * y * (1 - y)), (noise(5),)


@sick("wrong-gradient")
def jacobian_not_transposed():
    class Rotate(Function):
        @staticmethod
        def forward(ctx, x, matrix):
            ctx.save_for_backward(matrix)
            return matrix @ x

        @staticmethod
        def backward(ctx, grad_output):
            (matrix,) = ctx.saved_tensors
            return matrix @ grad_output, None

    return Rotate.apply, (noise(3), noise(3, 3, seed=1).detach())


@sick("wrong-gradient")
def weight_gradient_transposed():
    class Product(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, grad_output):
            x, w = ctx.saved_tensors
            return grad_output @ w.t(), grad_output.t() @ x

    return Product.apply, (noise(3, 3), noise(3, 3, seed=1))


@sick("wrong-gradient")
def gradients_swapped():
    class Divide(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a / b

        @staticmethod
        def backward(ctx, grad_output):
            a, b = ctx.saved_tensors
            return -grad_output * a / b**2, grad_output / b

    return Divide.apply, (noise(3), noise(3, seed=1))


@sick("wrong-gradient")
def mean_where_a_sum_belongs():
    class AddBias(Function):
        @staticmethod
        def forward(ctx, x, bias):
            return x + bias

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output.mean(0)

    return AddBias.apply, (noise(4, 3), noise(3, seed=1))


@sick("wrong-gradient")
def first_row_instead_of_the_sum():
    class AddBias(Function):
        @staticmethod
        def forward(ctx, x, bias):
            return x + bias

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output[0]

    return AddBias.apply, (noise(4, 3), noise(3, seed=1))


@sick("wrong-gradient")
def straight_through_not_declared():
    return elementwise(torch.round, lambda g, x, y: g), (noise(4),)


@sick("wrong-gradient")
def clipping_not_declared():
    return elementwise(lambda x: x * 1.0, lambda g, x, y: g.clamp(-0.1, 0.1)), (noise(4),)


@sick("wrong-gradient")
def departs_from_its_declared_rule():
    class Reverse(Function):
        surrogate = Surrogate("grad_input = -scale * grad_output", lambda g, x, scale: (-scale * g[0], None))

        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad_output):
            return -grad_output, None

    return Reverse.apply, (noise(3), 0.5)


@sick("wrong-gradient")
def conjugate_forgotten():
    class Square(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, grad_output):
            (z,) = ctx.saved_tensors
            return grad_output * 2 * z

    return Square.apply, (torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.cdouble, requires_grad=True),)


@sick("wrong-gradient")
def second_output_forgotten():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, grad_sin, grad_cos):
            (x,) = ctx.saved_tensors
            return grad_sin * x.cos()

    return SinCos.apply, (noise(3),)


@sick("wrong-gradient")
def wrong_in_single_precision_too():
    fn, _ = factor_two_dropped()
    return fn, (torch.tensor([0.4, 1.5], requires_grad=True),)


@sick("wrong-gradient")
def upstream_averaged():
    return elementwise(torch.sin, lambda g, x, y: g.mean() * x.cos()), (noise(4),)


@sick("wrong-gradient")
def wrong_inside_a_module():
    fn, _ = sign_turned()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1.5, dtype=torch.double))

        def forward(self, x):
            return fn(x * self.scale)

    return Net(), (noise(3),)


# --- upstream -------------------------------------------------------------------------------------------------


@sick("ignores-upstream")
def ones_like():
    return elementwise(lambda x: x + 1, lambda g, x, y: torch.ones_like(x)), (noise(3),)


@sick("ignores-upstream")
def loss_without_upstream():
    class SquaredError(Function):
        @staticmethod
        def forward(ctx, x, target):
            ctx.save_for_backward(x, target)
            return ((x - target) ** 2).sum()

        @staticmethod
        def backward(ctx, grad_output):
            x, target = ctx.saved_tensors
            return 2 * (x - target), None

    return SquaredError.apply, (noise(4), noise(4, seed=1).detach())


@sick("ignores-upstream")
def only_one_input_uses_the_upstream():
    class Multiply(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            a, b = ctx.saved_tensors
            return grad_output * b, a

    return Multiply.apply, (noise(3), noise(3, seed=1))


# --- counts, shapes, dtypes -----------------------------------------------------------------------------------


def _with_returns(*returned):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad_output):
            return tuple(grad_output * ctx.factor if item == "gradient" else item for item in returned)

    return Scaled.apply, (noise(3), 2.0)


@sick("wrong-gradient-count")
def one_gradient_too_few():
    return _with_returns("gradient")


@sick("wrong-gradient-count")
def extra_nones():
    return _with_returns("gradient", None, None, None)


@sick("gradient-shape")
def scalar_gradient():
    return elementwise(lambda x: x * 2, lambda g, x, y: 2 * g.sum()), (noise(3),)


@sick("gradient-shape")
def lost_dimension():
    return elementwise(lambda x: x * 2, lambda g, x, y: 2 * g[0]), (noise(3, 2),)


@sick("gradient-shape")
def flattened():
    return elementwise(lambda x: x * 2, lambda g, x, y: (2 * g).reshape(-1)), (noise(3, 2),)


@sick("dtype-loss")
def single_precision_gradient():
    return elementwise(torch.sin, lambda g, x, y: (g * x.cos()).float()), (noise(3),)


@sick("dtype-loss")
def single_precision_inside():
    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.from_numpy(np.sin(x.numpy().astype(np.float32))).to(x.dtype)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return x.cos() * grad_output

    return Sine.apply, (noise(5),)


@sick("missing-gradient")
def none_for_a_weight():
    class Weighted(Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight)
            return (weight * x).sum()

        @staticmethod
        def backward(ctx, grad_output):
            (weight,) = ctx.saved_tensors
            return grad_output * weight, None

    return Weighted.apply, (noise(3), noise(3, seed=1))


@sick("missing-gradient")
def zeros_for_a_scale():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(scale)
            return x * scale

        @staticmethod
        def backward(ctx, grad_output):
            (scale,) = ctx.saved_tensors
            return grad_output * scale, torch.zeros_like(scale)

    return Scale.apply, (noise(3), noise(1, seed=1))


@sick("missing-gradient")
def graph_cut_by_numpy():
    return (lambda x: torch.from_numpy(np.tanh(x.detach().numpy()))), (noise(3),)


@sick("missing-gradient")
def guard_with_the_wrong_index():
    class Subtract(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a - b

        @staticmethod
        def backward(ctx, grad_output):
            grad_a = grad_output if ctx.needs_input_grad[0] else None
            grad_b = -grad_output if ctx.needs_input_grad[0] else None
            return grad_a, grad_b

    return Subtract.apply, (noise(3), noise(3, seed=1))


# --- ctx ------------------------------------------------------------------------------------------------------


def _kept(keep, fetch):
    class Tanh(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.tanh()
            keep(ctx, x, y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            y = fetch(ctx)
            return grad_output * (1 - y * y)

    return Tanh.apply, (noise(3),)


@sick("tensor-on-ctx")
def input_on_ctx():
    return _kept(lambda ctx, x, y: setattr(ctx, "x", x), lambda ctx: ctx.x.tanh())


@sick("tensor-on-ctx")
def list_on_ctx():
    return _kept(lambda ctx, x, y: setattr(ctx, "stash", [1, (y,)]), lambda ctx: ctx.stash[1][0])


@sick("tensor-on-ctx")
def dictionary_on_ctx():
    return _kept(lambda ctx, x, y: setattr(ctx, "stash", {"a": {"y": y}}), lambda ctx: ctx.stash["a"]["y"])


@dataclass
class Stash:
    """A container of a tensor."""

    tensor: torch.Tensor


@sick("tensor-on-ctx")
def dataclass_on_ctx():
    return _kept(lambda ctx, x, y: setattr(ctx, "stash", Stash(y)), lambda ctx: ctx.stash.tensor)


@sick("tensor-on-ctx")
def view_on_ctx():
    return _kept(lambda ctx, x, y: setattr(ctx, "view", y.view(-1)), lambda ctx: ctx.view)


@sick("tensor-on-ctx")
def input_on_ctx_in_setup_context():
    class Sine(Function):
        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            (ctx.x,) = inputs

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.x.cos()

    return Sine.apply, (noise(3),)


@sick("saved-intermediate")
def saved_sigmoid():
    class Silu(Function):
        @staticmethod
        def forward(ctx, x):
            s = x.sigmoid()
            ctx.save_for_backward(x, s)
            return x * s

        @staticmethod
        def backward(ctx, grad_output):
            x, s = ctx.saved_tensors
            return grad_output * (s + x * s * (1 - s))

    return Silu.apply, (noise(3),)


@sick("saved-intermediate")
def norm_kept_as_a_number():
    class Halved(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.square = float((x * x).sum())
            return (x * x).sum() ** 2 / 2

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * 2 * ctx.square * x

    return Halved.apply, (noise(3),)


@sick("undeclared-once-differentiable")
def numpy_in_backward():
    return elementwise(
        torch.sinh, lambda g, x, y: torch.from_numpy(g.detach().numpy() * np.cosh(x.detach().numpy()))
    ), (noise(3),)


@sick("undeclared-once-differentiable")
def numpy_in_backward_without_detach():
    return elementwise(torch.sinh, lambda g, x, y: torch.from_numpy(g.numpy() * np.cosh(x.numpy()))), (
        noise(3),
    )


@sick("undeclared-once-differentiable")
def detached_in_backward():
    return elementwise(torch.exp, lambda g, x, y: g * y.detach()), (noise(3),)


@sick("undeclared-once-differentiable")
def backward_under_no_grad():
    @torch.no_grad()
    def rule(g, x, y):
        return g * x.cos()

    return elementwise(torch.sin, rule), (noise(3),)


# --- in place and memory --------------------------------------------------------------------------------------


@sick("inplace-input")
def overwrites_its_input():
    class Clamp(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x > 0)
            x.clamp_(min=0)
            return x * 1.0

        @staticmethod
        def backward(ctx, grad_output):
            (mask,) = ctx.saved_tensors
            return grad_output * mask

    return Clamp.apply, (noise(4),)


@sick("inplace-input")
def overwrites_its_input_through_numpy():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            array = x.detach().numpy()
            array *= 2
            return torch.from_numpy(array.copy())

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    return Double.apply, (noise(4),)


@sick("inplace-grad-output")
def multiplies_grad_output_in_place():
    return elementwise(lambda x: 2 * x, lambda g, x, y: g.mul_(2)), (noise(4),)


@sick("inplace-grad-output")
def writes_into_grad_output():
    def rule(g, x, y):
        g[x < 0] = 0
        return g

    return elementwise(torch.relu, rule), (noise(4),)


@sick("inplace-saved")
def overwrites_a_saved_tensor():
    return elementwise(torch.tanh, lambda g, x, y: y.pow_(2).neg_().add_(1).mul_(g)), (noise(4),)


@sick("assumes-contiguous")
def views_grad_output():
    return elementwise(lambda x: 3 * x, lambda g, x, y: (3 * g.view(-1)).view(x.shape)), (noise(2, 3),)


@sick("assumes-contiguous")
def views_its_input():
    class Total(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.view(-1).sum()

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.expand(ctx.shape)

    return Total.apply, (noise(2, 3),)


@sick("assumes-contiguous")
def reads_memory_in_order():
    def rule(g, x, y):
        raw = torch.as_strided(g, (g.numel(),), (1,), g.storage_offset()).clone()
        return raw.reshape(x.shape) * 2

    return elementwise(lambda x: 2 * x, rule), (noise(3, 2),)


# --- state ----------------------------------------------------------------------------------------------------


@sick("mutable-state")
def last_input_in_a_class_attribute():
    class Square(Function):
        x = None

        @staticmethod
        def forward(ctx, x):
            Square.x = x.detach().clone()
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * Square.x * grad_output

    return Square.apply, (noise(3),)


@sick("mutable-state")
def last_input_in_a_global_dictionary():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            last_seen["x"] = x.detach().clone()
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * last_seen["x"] * grad_output

    return Square.apply, (noise(3),)


@sick("mutable-state")
def last_input_in_a_default_argument():
    class Square(Function):
        @staticmethod
        def forward(ctx, x, memory=[]):  # noqa: B006 - the fault on show
            memory[:] = [x.detach().clone()]
            ctx.memory = memory
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * ctx.memory[0] * grad_output, None

    return Square.apply, (noise(3),)


@sick("mutable-state")
def last_input_in_a_closure():
    box = []

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            box.append(x.detach().clone())
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * box[-1] * grad_output

    return Square.apply, (noise(3),)


@sick("mutable-state")
def stack_popped_in_backward():
    stack = []

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            stack.append(x.detach().clone())
            return x**3

        @staticmethod
        def backward(ctx, grad_output):
            return 3 * stack[0] ** 2 * grad_output

    return Cube.apply, (noise(3),)


@sick("mutable-state")
def global_threshold():
    class SoftThreshold(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.where(x.abs() < threshold, x, threshold * x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return torch.where(x.abs() < threshold, grad_output, threshold * grad_output)

    return SoftThreshold.apply, (noise(4),)


@sick("mutable-state")
def global_settings_dictionary():
    class Leaky(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.where(x > 0, x, settings["slope"] * x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return torch.where(x > 0, grad_output, settings["slope"] * grad_output)

    return Leaky.apply, (noise(4),)


@sick("mutable-state")
def buffer_of_a_module():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, layer):
            layer.seen = 0.5 * layer.seen + x.detach().abs().mean()
            ctx.layer = layer
            return x * layer.seen

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.layer.seen, None

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.tensor(1.0, dtype=torch.double))

        def forward(self, x):
            return Scale.apply(x, self)

    return Layer(), (noise(3),)


@sick("mutable-state")
def mask_drawn_again():
    class Drop(Function):
        @staticmethod
        def forward(ctx, x):
            return x * torch.bernoulli(torch.full_like(x, 0.5))

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * torch.bernoulli(torch.full_like(grad_output, 0.5))

    return Drop.apply, (noise(32),)


@sick("mutable-state")
def python_random_in_backward():
    return elementwise(lambda x: x * 2, lambda g, x, y: g * 2 * random.random()), (noise(3),)


@sick("mutable-state")
def changes_the_default_dtype():
    class Careless(Function):
        @staticmethod
        def forward(ctx, x):
            torch.set_default_dtype(torch.float64)
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

    return Careless.apply, (noise(3),)


@sick("nondeterministic")
def follows_the_clock():
    return elementwise(lambda x: x * 2, lambda g, x, y: g * 2 * (1 + time.perf_counter_ns() % 1000 / 1e4)), (
        noise(3),
    )


@sick("nondeterministic")
def forward_of_the_operating_system():
    system = random.SystemRandom()
    return elementwise(lambda x: x * system.random(), lambda g, x, y: g), (noise(3),)


# --- numbers that are not numbers -----------------------------------------------------------------------------


@sick("nan-gradient")
def norm_at_zero():
    return (lambda x: (x * x).sum().sqrt()), (noise(3),)


@sick("nan-gradient")
def norm_divided_by_itself():
    return elementwise(lambda x: x.norm(), lambda g, x, y: g * x / y), (noise(3),)


@sick("nan-gradient")
def softplus_overflow_in_backward():
    return elementwise(nn.functional.softplus, lambda g, x, y: g * x.exp() / (1 + x.exp())), (noise(3),)


@sick("nan-gradient")
def where_with_log():
    return (lambda x: torch.where(x > 0, x.log() * x, torch.zeros_like(x))), (
        torch.tensor([0.0, 1.0, 2.0], dtype=torch.double, requires_grad=True),
    )


@sick("nan-gradient")
def distance_of_equal_points():
    return (lambda a, b: ((a - b) ** 2).sum(-1).sqrt()), (noise(2, 3), noise(2, 3, seed=1))


@sick("non-finite-forward")
def naive_log_sum_exp():
    return (lambda x: x.exp().sum().log()), (
        torch.tensor([1000.0, 0.0], dtype=torch.double, requires_grad=True),
    )


# --- graph, style, exceptions ---------------------------------------------------------------------------------


@sick("graph-inside-forward")
def graph_expected_in_backward():
    class Trust(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.sin()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            x, _ = ctx.saved_tensors
            inner = x.detach().sin()
            return torch.autograd.grad(inner, x, grad_output)[0]

    return Trust.apply, (noise(3),)


@sick("graph-inside-forward")
def backward_called_in_forward():
    class Energy(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                energy = (x**2).sum()
                energy.backward()
            ctx.save_for_backward(x)
            return energy.detach()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Energy.apply, (noise(3),)


@sick("legacy-style")
def forward_not_static():
    class Double(Function):
        def forward(self, x):
            return 2 * x

        def backward(self, grad_output):
            return 2 * grad_output

    return Double.apply, (noise(3),)


@sick("legacy-style")
def instance_called():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Double(), (noise(3),)


@sick("unhandled-none")
def none_multiplied():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, grad_sin, grad_cos):
            (x,) = ctx.saved_tensors
            return grad_sin * x.cos() - grad_cos * x.sin()

    return SinCos.apply, (noise(3),)


@sick("raises")
def never_saved():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Square.apply, (noise(3),)


@sick("raises")
def no_backward():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

    return Square.apply, (noise(3),)


@sick("raises")
def attribute_deleted_in_backward():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad_output):
            factor = ctx.factor
            del ctx.factor
            return grad_output * factor, None

    return Scale.apply, (noise(3), 2.0)


@sick("raises")
def gpu_that_is_absent():
    return elementwise(lambda x: (x.to("cuda") * 2).cpu(), lambda g, x, y: 2 * g), (noise(3),)


@sick("raises")
def gradient_on_another_device():
    return elementwise(lambda x: 2 * x, lambda g, x, y: (2 * g).to("meta")), (noise(3),)


@sick("raises")
def leaves_the_interpreter():
    def leave(g, x, y):
        raise SystemExit(3)

    return elementwise(lambda x: 2 * x, leave), (noise(3),)


@sick("raises")
def recursion_without_end():
    def deeper(x):
        return deeper(x)

    return elementwise(deeper, lambda g, x, y: g), (noise(3),)


@sick("raises")
def returns_text():
    return elementwise(lambda x: 2 * x, lambda g, x, y: "2 * g"), (noise(3),)


# --- further variants of the same kinds -----------------------------------------------------------------------


@sick("inplace-input")
def returns_its_overwritten_input_unmarked():
    class Relu(Function):
        @staticmethod
        def forward(ctx, x):
            x.clamp_(min=0)
            ctx.save_for_backward(x > 0)
            return x

        @staticmethod
        def backward(ctx, grad_output):
            (mask,) = ctx.saved_tensors
            return grad_output * mask

    return Relu.apply, (noise(4),)


@sick("missing-gradient", "wrong-gradient")
def gradient_handed_to_the_wrong_input():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return None, grad_output * y

    return Scale.apply, (noise(3), noise(3, seed=1))


@sick("mutable-state")
def counts_its_backwards():
    class Decay(Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            Decay.calls += 1
            return 2 * grad_output / Decay.calls

    return Decay.apply, (noise(3),)


@sick("mutable-state")
def argument_stored_on_the_class():
    class Power(Function):
        exponent = None

        @staticmethod
        def forward(ctx, x, exponent):
            Power.exponent = exponent
            ctx.save_for_backward(x)
            return x**exponent

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return Power.exponent * x ** (Power.exponent - 1) * grad_output, None

    return Power.apply, (noise(3).detach().abs().requires_grad_(), 2.5)


@sick("mutable-state")
def shape_stored_on_the_class():
    class Mean(Function):
        shape = None

        @staticmethod
        def forward(ctx, x):
            Mean.shape = x.shape
            return x.mean()

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.expand(Mean.shape) / Mean.shape.numel()

    return Mean.apply, (noise(4),)


@sick("mutable-state")
def box_in_a_closure():
    scale = [2.0]

    class Scale(Function):
        @staticmethod
        def forward(ctx, x):
            return scale[0] * x

        @staticmethod
        def backward(ctx, grad_output):
            return scale[0] * grad_output

    return Scale.apply, (noise(3),)


@sick("mutable-state")
def attribute_of_a_module_handed_over():
    class Gain(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = 2.0

        def forward(self, x):
            layer = self

            class Scale(Function):
                @staticmethod
                def forward(ctx, x):
                    return layer.gain * x

                @staticmethod
                def backward(ctx, grad_output):
                    return layer.gain * grad_output

            return Scale.apply(x)

    return Gain(), (noise(3),)


@sick("mutable-state")
def sets_the_seed():
    class Noisy(Function):
        @staticmethod
        def forward(ctx, x):
            torch.manual_seed(0)
            return x + torch.rand(x.shape, dtype=x.dtype)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Noisy.apply, (noise(3),)


@sick("mutable-state")
def workspace_shared_by_all_calls():
    workspace = torch.zeros(3, dtype=torch.double)

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            workspace.copy_(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * workspace * grad_output

    return Square.apply, (noise(3),)


@sick("inplace-saved", "tensor-on-ctx")
def overwrites_what_hangs_on_ctx():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.double = 2 * x
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return ctx.double.mul_(grad_output)

    return Square.apply, (noise(3),)


@sick("assumes-contiguous")
def numpy_reads_raw_memory():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_output):
            memory = torch.empty(0, dtype=grad_output.dtype).set_(grad_output.untyped_storage())
            start = grad_output.storage_offset()
            return 2 * memory[start : start + grad_output.numel()].clone().reshape(grad_output.shape)

    return Double.apply, (noise(2, 3),)


@sick("nan-gradient")
def power_at_zero():
    return elementwise(lambda x: x.abs() ** 1.5, lambda g, x, y: g * 1.5 * y / x), (noise(3),)


@sick("nan-gradient")
def sigmoid_overflow_in_single_precision():
    fn = elementwise(torch.sigmoid, lambda g, x, y: g * (-x).exp() / (1 + (-x).exp()) ** 2)
    return fn, (torch.tensor([-2.0, 0.5]).requires_grad_(),)


@sick("unhandled-none")
def none_in_the_first_of_two_outputs():
    class Split(Function):
        @staticmethod
        def forward(x):
            return x * 2, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, first, second):
            return 2 * first.clone() + (0 if second is None else 3 * second)

    return Split.apply, (noise(3),)


@sick("wrong-gradient")
def wrong_only_for_negative_numbers():
    return elementwise(lambda x: torch.where(x > 0, x, 0.1 * x), lambda g, x, y: g.clone()), (noise(6),)


@sick("wrong-gradient")
def epsilon_forgotten():
    return elementwise(lambda x: x / (x * x + 0.1).sqrt(), lambda g, x, y: g * 0.1 / (x * x) ** 1.5), (
        noise(4),
    )


@sick("raises")
def fails_when_an_input_is_frozen():
    class Multiply(Function):
        @staticmethod
        def forward(ctx, a, b):
            needs_a, needs_b = ctx.needs_input_grad
            ctx.save_for_backward(*([b] if needs_a else []), *([a] if needs_b else []))
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            b, a = ctx.saved_tensors
            return grad_output * b, grad_output * a

    return Multiply.apply, (noise(3), noise(3, seed=1))


@sick("dtype-loss")
def half_precision_gradient():
    fn = elementwise(torch.sin, lambda g, x, y: (g * x.cos()).half())
    return fn, (torch.tensor([0.5, 1.0]).requires_grad_(),)


@sick("ignores-upstream")
def plain_function_around_a_sick_one():
    fn = elementwise(torch.exp, lambda g, x, y: y.clone())
    return (lambda x: fn(x)), (noise(3),)


@sick("nondeterministic")
def noise_on_the_gradient_alone():
    return elementwise(torch.sin, lambda g, x, y: g * x.cos() * (1 + 0.1 * torch.randn_like(g))), (noise(6),)
