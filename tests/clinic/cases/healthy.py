"""Healthy Functions in many styles: the clinic must not find anything above note level in them."""

from __future__ import annotations

import math
import types
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from helpers.functions.contract import Surrogate

from .case import Case, case, noise

CASES: list[Case] = []
healthy = case(CASES)

SQRT_TWO = math.sqrt(2.0)
STENCIL = torch.tensor([1.0, -2.0, 1.0], dtype=torch.double)


@healthy()
def combined_style():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Square.apply, (noise(3, 2),)


@healthy()
def class_given_instead_of_apply():
    class Exp(Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return Exp, (noise(4),)


@healthy()
def linear_of_the_documentation():
    class Linear(Function):
        @staticmethod
        def forward(x, weight, bias):
            y = x.mm(weight.t())
            return y if bias is None else y + bias.unsqueeze(0).expand_as(y)

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, weight, bias = inputs
            ctx.save_for_backward(x, weight, bias)

        @staticmethod
        def backward(ctx, grad_output):
            x, weight, bias = ctx.saved_tensors
            grad_x = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_x = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(x)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_x, grad_weight, grad_bias

    return Linear.apply, (noise(4, 3), noise(2, 3), noise(2))


@healthy()
def linear_without_bias():
    fn, (x, weight, _) = linear_of_the_documentation()
    return fn, (x, weight, None)


@healthy()
def multiply_by_a_constant_of_the_documentation():
    class MulConstant(Function):
        @staticmethod
        def forward(tensor, constant):
            return tensor * constant

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.constant = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.constant, None

    return MulConstant.apply, (noise(5), 2.5)


@healthy()
def materialize_off_and_none_handled():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, grad_sin, grad_cos):
            (x,) = ctx.saved_tensors
            grad = None
            if grad_sin is not None:
                grad = grad_sin * x.cos()
            if grad_cos is not None:
                part = -grad_cos * x.sin()
                grad = part if grad is None else grad + part
            return grad

    return Both.apply, (noise(4),)


@healthy()
def numpy_with_once_differentiable():
    class Tanh(Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.from_numpy(np.tanh(x.detach().numpy()))
            ctx.save_for_backward(y)
            return y

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return torch.from_numpy(grad_output.numpy() * (1 - y.numpy() ** 2))

    return Tanh.apply, (noise(2, 3),)


@healthy()
def in_place_with_mark_dirty():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return AddOne.apply, (noise(3),)


@healthy()
def in_place_exponential():
    class ExpInPlace(Function):
        @staticmethod
        def forward(ctx, x):
            x.exp_()
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return ExpInPlace.apply, (noise(3),)


@healthy()
def integer_output():
    class SortWithIndex(Function):
        @staticmethod
        def forward(ctx, x):
            values, index = x.sort(dim=-1)
            ctx.mark_non_differentiable(index)
            ctx.save_for_backward(index)
            return values, index

        @staticmethod
        def backward(ctx, grad_values, _):
            (index,) = ctx.saved_tensors
            return torch.zeros_like(grad_values).scatter(-1, index, grad_values)

    return SortWithIndex.apply, (noise(2, 4),)


@healthy()
def several_outputs():
    class Polar(Function):
        @staticmethod
        def forward(x, y):
            return (x * x + y * y).sqrt(), torch.atan2(y, x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_r, grad_angle):
            x, y = ctx.saved_tensors
            r2 = (x * x + y * y).clamp_min(1e-300)
            r = r2.sqrt()
            return grad_r * x / r - grad_angle * y / r2, grad_r * y / r + grad_angle * x / r2

    return Polar.apply, (noise(3), noise(3, seed=1))


@healthy()
def non_tensor_arguments_of_many_kinds():
    class Reduce(Function):
        @staticmethod
        def forward(ctx, x, dim, keepdim=False, how="sum"):
            ctx.shape, ctx.dim, ctx.keepdim, ctx.how = x.shape, dim, keepdim, how
            return x.sum(dim, keepdim) if how == "sum" else x.mean(dim, keepdim)

        @staticmethod
        def backward(ctx, grad_output):
            grad = grad_output if ctx.keepdim else grad_output.unsqueeze(ctx.dim)
            if ctx.how == "mean":
                grad = grad / ctx.shape[ctx.dim]
            return grad.expand(ctx.shape), None, None, None

    return Reduce.apply, (noise(3, 4), 1, False, "mean")


@healthy()
def defaults_left_out():
    class Power(Function):
        @staticmethod
        def forward(ctx, x, exponent=3):
            ctx.save_for_backward(x)
            ctx.exponent = exponent
            return x**exponent

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * ctx.exponent * x ** (ctx.exponent - 1), None

    return Power.apply, (noise(3),)


@healthy()
def variadic_arguments():
    class Total(Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.count = len(tensors)
            return sum(tensors)

        @staticmethod
        def backward(ctx, grad_output):
            return (grad_output,) * ctx.count

    return Total.apply, (noise(3), noise(3, seed=1), noise(3, seed=2))


@healthy()
def broadcast_left_to_the_engine():
    class Multiply(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            a, b = ctx.saved_tensors
            return grad_output * b, grad_output * a

    return Multiply.apply, (noise(3, 2), noise(2))


@healthy()
def broadcast_summed_by_hand():
    class Add(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.shapes = a.shape, b.shape
            return a + b

        @staticmethod
        def backward(ctx, grad_output):
            return tuple(grad_output.sum_to_size(shape) for shape in ctx.shapes)

    return Add.apply, (noise(3, 2), noise(3, 1))


@healthy("kink")
def relu_at_zero():
    class Relu(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * (x > 0)

    return Relu.apply, (torch.tensor([-1.0, 0.0, 2.0, 1e-9], dtype=torch.double, requires_grad=True),)


@healthy("kink")
def absolute_value_at_zero():
    return torch.abs, (torch.tensor([0.0, 1.0, -3.0], dtype=torch.double, requires_grad=True),)


@healthy("kink")
def maximum_with_ties():
    class Largest(Function):
        @staticmethod
        def forward(ctx, x):
            value, index = x.max(dim=-1)
            ctx.save_for_backward(index)
            ctx.shape = x.shape
            return value

        @staticmethod
        def backward(ctx, grad_output):
            (index,) = ctx.saved_tensors
            grad = grad_output.new_zeros(ctx.shape)
            return grad.scatter(-1, index.unsqueeze(-1), grad_output.unsqueeze(-1))

    return Largest.apply, (
        torch.tensor([[1.0, 1.0, 0.5], [0.0, 2.0, 1.0]], dtype=torch.double, requires_grad=True),
    )


@healthy("low-precision-check")
def single_precision():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad_output

    return Cube.apply, (torch.tensor([0.3, -2.0, 5.0], requires_grad=True),)


@healthy("low-precision-check")
def single_precision_only():
    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            if x.dtype != torch.float32:
                raise TypeError("x must be float32")
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return x.cos() * grad_output

    return Sine.apply, (torch.linspace(-2, 2, 7).requires_grad_(),)


@healthy("low-precision-check")
def half_precision():
    fn, (x,) = single_precision()
    return fn, (x.detach().half().requires_grad_(),)


@healthy()
def complex_numbers():
    class Square(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, grad_output):
            (z,) = ctx.saved_tensors
            return grad_output * (2 * z).conj()

    return Square.apply, (torch.tensor([1 + 2j, -0.5j], dtype=torch.cdouble, requires_grad=True),)


@healthy()
def complex_to_real():
    class SquaredModulus(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z.real**2 + z.imag**2

        @staticmethod
        def backward(ctx, grad_output):
            (z,) = ctx.saved_tensors
            return 2 * grad_output * z

    return SquaredModulus.apply, (torch.tensor([1 + 2j, 0.3 - 1j], dtype=torch.cdouble, requires_grad=True),)


@healthy()
def dropout_with_a_saved_mask():
    class Dropout(Function):
        @staticmethod
        def forward(ctx, x, p):
            mask = (torch.rand_like(x) > p) / (1 - p)
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, grad_output):
            (mask,) = ctx.saved_tensors
            return grad_output * mask, None

    return Dropout.apply, (torch.ones(32, dtype=torch.double, requires_grad=True), 0.5)


@healthy()
def noise_in_forward_from_numpy():
    class Jitter(Function):
        @staticmethod
        def forward(ctx, x):
            return x + torch.from_numpy(np.random.standard_normal(x.shape))

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Jitter.apply, (noise(4),)


@healthy()
def own_generator_in_a_closure():
    generator = torch.Generator().manual_seed(3)

    class Perturb(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Perturb.apply, (noise(4),)


@healthy("declared-surrogate")
def straight_through_declared():
    class Round(Function):
        surrogate = Surrogate("grad_input = grad_output", lambda grads, x: (grads[0],))

        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Round.apply, (noise(5),)


@healthy("declared-surrogate")
def clipping_declared_inside_a_model():
    class Clip(Function):
        surrogate = Surrogate(
            "grad_input = clip(grad_output, ±limit)", lambda g, x, limit: (g[0].clamp(-limit, limit), None)
        )

        @staticmethod
        def forward(ctx, x, limit):
            ctx.limit = limit
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.clamp(-ctx.limit, ctx.limit), None

    return (lambda x: Clip.apply(x.sin(), 0.1) * 3), (noise(5),)


@healthy()
def plain_composition():
    def log_cosh(x):
        return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)

    return log_cosh, (noise(4),)


@healthy()
def double_where():
    def safe_sqrt(x):
        positive = x > 0
        return torch.where(positive, torch.where(positive, x, torch.ones_like(x)).sqrt(), torch.zeros_like(x))

    return safe_sqrt, (torch.tensor([0.0, 0.25, 4.0], dtype=torch.double, requires_grad=True),)


@healthy()
def square_root_at_zero_is_truly_infinite():
    return torch.sqrt, (torch.tensor([0.0, 1.0, 4.0], dtype=torch.double, requires_grad=True),)


@healthy()
def module_with_parameters():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double(), (noise(5, 3),)


@healthy()
def module_with_batch_norm_and_dropout():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double(), (noise(6, 3),)


@healthy("low-precision-check")
def module_around_a_function():
    class Swish(Function):
        @staticmethod
        def forward(ctx, x, beta):
            ctx.save_for_backward(x, beta)
            return x * torch.sigmoid(beta * x)

        @staticmethod
        def backward(ctx, grad_output):
            x, beta = ctx.saved_tensors
            s = torch.sigmoid(beta * x)
            slope = s * (1 - s)
            return grad_output * (s + beta * x * slope), (grad_output * x * x * slope).sum()

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.beta = nn.Parameter(torch.tensor(1.5))

        def forward(self, x):
            return Swish.apply(x, self.beta)

    return Layer(), (torch.linspace(-1, 2, 6).requires_grad_(),)


@healthy()
def view_returned():
    class Flatten(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.reshape(-1)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.reshape(ctx.shape)

    return Flatten.apply, (noise(2, 3),)


@healthy()
def input_returned_as_it_is():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Identity.apply, (noise(3),)


@healthy()
def constants_in_capitals_and_closures():
    slope = 0.3

    class Gelu(Function):
        EPSILON = 1e-9

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return slope * x * (1 + torch.erf(x / SQRT_TWO)) + Gelu.EPSILON

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
            return slope * grad_output * (1 + torch.erf(x / SQRT_TWO) + 2 * x * density)

    return Gelu.apply, (noise(4),)


@healthy()
def constant_tensor_at_module_level():
    class SecondDifference(Function):
        @staticmethod
        def forward(ctx, x):
            return sum(STENCIL[k] * x[k : len(x) - 2 + k] for k in range(3))

        @staticmethod
        def backward(ctx, grad_output):
            grad = grad_output.new_zeros(len(grad_output) + 2)
            for k in range(3):
                grad = grad + torch.nn.functional.pad(STENCIL[k] * grad_output, (k, 2 - k))
            return grad

    return SecondDifference.apply, (noise(6),)


@healthy()
def counter_that_nobody_reads():
    class Counted(Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            Counted.calls += 1
            ctx.save_for_backward(x)
            return x.sinh()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * x.cosh()

    return Counted.apply, (noise(3),)


@healthy()
def shape_checks_with_own_exceptions():
    class ShapeError(ValueError):
        pass

    class Dot(Function):
        @staticmethod
        def forward(ctx, a, b):
            if a.dim() != 1 or a.shape != b.shape or not len(a):
                raise ShapeError(f"a and b must be vectors of one length; got {a.shape} and {b.shape}")
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, grad_output):
            a, b = ctx.saved_tensors
            return grad_output * b, grad_output * a

    return Dot.apply, (noise(3), noise(3, seed=1))


@healthy()
def contiguous_input_demanded_politely():
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x):
            if not x.is_contiguous():
                raise ValueError("x must be contiguous; call x.contiguous() first")
            return x.flip(0)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.contiguous().flip(0)

    return Reverse.apply, (noise(4, 2),)


@healthy()
def recompute_with_a_local_graph():
    class Checkpoint(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return torch.tanh(x @ w)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            x, w = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
            with torch.enable_grad():
                y = torch.tanh(x @ w)
            return torch.autograd.grad(y, (x, w), grad_output)

    return Checkpoint.apply, (noise(3, 2), noise(2, 4, seed=1))


@healthy()
def inner_gradient_with_enable_grad():
    class Force(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                energy = (y**4).sum()
                (force,) = torch.autograd.grad(energy, y)
            ctx.save_for_backward(x)
            return -force

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return -12 * x**2 * grad_output

    return Force.apply, (noise(3),)


@healthy()
def index_select_with_an_integer_tensor():
    class Gather(Function):
        @staticmethod
        def forward(ctx, table, index):
            ctx.save_for_backward(index)
            ctx.rows = table.shape[0]
            return table[index]

        @staticmethod
        def backward(ctx, grad_output):
            (index,) = ctx.saved_tensors
            grad = grad_output.new_zeros(ctx.rows, *grad_output.shape[1:])
            return grad.index_add(0, index, grad_output), None

    return Gather.apply, (noise(4, 3), torch.tensor([0, 2, 2, 1]))


@healthy()
def sparse_gradient():
    class Lookup(Function):
        @staticmethod
        def forward(ctx, table, index):
            ctx.save_for_backward(index)
            ctx.shape = table.shape
            return table[index]

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            (index,) = ctx.saved_tensors
            return torch.sparse_coo_tensor(index.unsqueeze(0), grad_output, ctx.shape), None

    return Lookup.apply, (noise(4, 3), torch.tensor([0, 2, 2, 1]))


@healthy()
def sparse_matrix_argument():
    class SparseProduct(Function):
        @staticmethod
        def forward(ctx, matrix, x):
            ctx.save_for_backward(matrix)
            return torch.sparse.mm(matrix, x)

        @staticmethod
        def backward(ctx, grad_output):
            (matrix,) = ctx.saved_tensors
            return None, torch.sparse.mm(matrix.t(), grad_output)

    matrix = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], dtype=torch.double).to_sparse()
    return SparseProduct.apply, (matrix, noise(3, 2))


@healthy()
def target_without_gradient():
    class Squared(Function):
        @staticmethod
        def forward(ctx, x, target):
            ctx.save_for_backward(x, target)
            return ((x - target) ** 2).mean()

        @staticmethod
        def backward(ctx, grad_output):
            x, target = ctx.saved_tensors
            return grad_output * 2 * (x - target) / x.numel(), None

    return Squared.apply, (noise(5), noise(5, seed=1).detach())


@healthy()
def configuration_object_as_argument():
    @dataclass(frozen=True)
    class Settings:
        slope: float = 0.2

    class Leaky(Function):
        @staticmethod
        def forward(ctx, x, settings):
            ctx.save_for_backward(x)
            ctx.settings = settings
            return torch.where(x > 0, x, settings.slope * x)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return torch.where(x > 0, grad_output, ctx.settings.slope * grad_output), None

    return Leaky.apply, (noise(4), Settings())


@healthy()
def softmax_with_saved_output():
    class Softmax(Function):
        @staticmethod
        def forward(x):
            return x.softmax(-1)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))

    return Softmax.apply, (noise(2, 4),)


@healthy()
def layer_norm_with_saved_statistics():
    class LayerNorm(Function):
        @staticmethod
        def forward(ctx, x, weight):
            mean = x.mean(-1, keepdim=True)
            rstd = (x.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
            ctx.save_for_backward(x, weight, mean, rstd)
            return (x - mean) * rstd * weight

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            x, weight, mean, rstd = ctx.saved_tensors
            normed = (x - mean) * rstd
            g = grad_output * weight
            grad_x = rstd * (g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True))
            return grad_x, (grad_output * normed).sum(0)

    return LayerNorm.apply, (noise(3, 5), noise(5, seed=1))


@healthy()
def vmap_rule_by_hand():
    class Scale(Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor, None

        @staticmethod
        def vmap(info, in_dims, x, factor):
            return Scale.apply(x, factor), in_dims[0]

    return Scale.apply, (noise(3), 4.0)


@healthy()
def non_differentiable_second_output():
    class Normalise(Function):
        @staticmethod
        def forward(ctx, x):
            size = x.detach().abs().max()
            ctx.mark_non_differentiable(size)
            return x * 2, size

        @staticmethod
        def backward(ctx, grad_output, _):
            return grad_output * 2

    return Normalise.apply, (noise(4),)


@healthy()
def inherited_backward():
    class Elementwise(Function):
        @classmethod
        def slope(cls, x):
            raise NotImplementedError

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * ctx.slope_of(x)

    class Atan(Elementwise):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.slope_of = lambda t: 1 / (1 + t * t)
            return x.atan()

    return Atan.apply, (noise(4),)


@healthy()
def forward_mode_as_well():
    class Cube(Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad_output

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * tangent

    return Cube.apply, (noise(3),)


@healthy()
def second_derivative_refused_by_hand():
    class Sinc(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sinc(x)

        @staticmethod
        def backward(ctx, grad_output):
            if torch.is_grad_enabled():
                raise NotImplementedError("Sinc has no second derivative")
            (x,) = ctx.saved_tensors
            safe = torch.where(x == 0, torch.ones_like(x), x)
            slope = torch.where(
                x == 0, torch.zeros_like(x), ((math.pi * safe).cos() - torch.sinc(safe)) / safe
            )
            return grad_output * slope

    return Sinc.apply, (noise(4),)


@healthy()
def gradient_with_gradcheck_style_scalar():
    class Mean(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape, ctx.count = x.shape, max(x.numel(), 1)
            return x.mean()

        @staticmethod
        def backward(ctx, grad_output):
            return (grad_output / ctx.count).expand(ctx.shape)

    return Mean.apply, (noise(2, 3),)


@healthy()
def tiny_and_huge_inputs():
    class Log(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.log()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output / x

    return Log.apply, (torch.tensor([1e-8, 1e-3, 1.0, 1e6], dtype=torch.double, requires_grad=True),)


@healthy()
def large_input_is_sampled():
    class Relu6(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(0, 6)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * ((x > 0) & (x < 6))

    return Relu6.apply, (noise(200, 50),)


@healthy()
def namespace_of_plain_constants():
    constants = types.SimpleNamespace(A=2.0, B=3.0)

    class Affine(Function):
        @staticmethod
        def forward(ctx, x):
            return constants.A * x + constants.B

        @staticmethod
        def backward(ctx, grad_output):
            return constants.A * grad_output

    return Affine.apply, (noise(3),)


@healthy()
def list_of_tensors_to_a_plain_function():
    def total(tensors: list[Tensor], weights: dict[str, Tensor]) -> Tensor:
        return sum(t.sum() for t in tensors) * weights["w"]

    return total, ([noise(2), noise(3, seed=1)], {"w": noise(1, seed=2)})


@healthy()
def keyword_partial():
    import functools

    return functools.partial(torch.nn.functional.gelu, approximate="tanh"), (noise(4),)


@healthy()
def iterative_solver():
    class Root(Function):
        @staticmethod
        def forward(ctx, a):
            x = torch.ones_like(a)
            for _ in range(100):
                step = (x**3 + x - a) / (3 * x * x + 1)
                x = x - step
                if step.abs().max() < 1e-7:
                    break
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output / (3 * x * x + 1)

    return Root.apply, (noise(4),)


@healthy()
def fast_oscillation():
    class Wave(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (200 * x).sin()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 200 * (200 * x).cos() * grad_output

    return Wave.apply, (noise(4),)


@healthy()
def large_values():
    class Huge(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 1e8 + x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Huge.apply, (noise(4),)


@healthy()
def cast_to_another_dtype():
    class ToSingle(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.dtype = x.dtype
            return x.float()

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output.to(ctx.dtype)

    return ToSingle.apply, (noise(4),)


@healthy()
def only_an_integer_output():
    class Rank(Function):
        @staticmethod
        def forward(ctx, x):
            return x.argsort()

        @staticmethod
        def backward(ctx, grad_output):
            return None

    return Rank.apply, (noise(4),)


@healthy()
def input_that_does_not_matter():
    class First(Function):
        @staticmethod
        def forward(ctx, x, unused):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2, None

    return First.apply, (noise(3), noise(3, seed=1))


@healthy()
def step_with_zero_gradient():
    class Step(Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).to(x.dtype)

        @staticmethod
        def backward(ctx, grad_output):
            return torch.zeros_like(grad_output)

    return Step.apply, (noise(4),)


@healthy()
def empty_input():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Square.apply, (torch.zeros(0, 3, dtype=torch.double, requires_grad=True),)


@healthy()
def scalar_input():
    fn, _ = empty_input()
    return fn, (torch.tensor(1.3, dtype=torch.double, requires_grad=True),)


@healthy()
def views_of_the_input_returned():
    class Halves(Function):
        @staticmethod
        def forward(ctx, x):
            return x[:2].clone(), x[2:].clone()

        @staticmethod
        def backward(ctx, first, second):
            return torch.cat([first, second])

    return Halves.apply, (noise(4),)


@healthy()
def matrix_function_of_symmetric_matrices():
    matrix = noise(3, 3).detach()
    return torch.linalg.cholesky, ((matrix @ matrix.mT + 3 * torch.eye(3)).requires_grad_(),)


@healthy()
def matrix_function_of_a_symmetric_matrix_too_large_to_examine_whole():
    matrix = noise(10, 10).detach()
    return torch.linalg.cholesky, ((matrix @ matrix.mT + 10 * torch.eye(10)).requires_grad_(),)


@healthy()
def matrix_function_of_a_matrix_symmetric_up_to_rounding():
    matrix = noise(3, 3).detach()
    symmetric = matrix @ matrix.mT + 3 * torch.eye(3)
    symmetric[0, 1] *= 1 + 1e-15
    return torch.linalg.cholesky, (symmetric.requires_grad_(),)


@healthy()
def coefficients_in_a_closure():
    coefficients = [1.0, -2.0, 0.5]

    class Polynomial(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return sum(c * x**k for k, c in enumerate(coefficients))

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * sum(k * c * x ** (k - 1) for k, c in enumerate(coefficients) if k)

    return Polynomial.apply, (noise(4),)


@healthy()
def cache_of_constants_by_shape():
    cache: dict[int, torch.Tensor] = {}

    class Window(Function):
        @staticmethod
        def forward(ctx, x):
            if len(x) not in cache:
                cache[len(x)] = torch.hann_window(len(x), dtype=x.dtype) + 1
            ctx.length = len(x)
            return x * cache[len(x)]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * cache[ctx.length]

    return Window.apply, (noise(5),)


@healthy()
def saved_only_when_needed():
    class Multiply(Function):
        @staticmethod
        def forward(ctx, a, b):
            needs_a, needs_b = ctx.needs_input_grad
            ctx.save_for_backward(b if needs_a else None, a if needs_b else None)
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            b, a = ctx.saved_tensors
            return None if b is None else grad_output * b, None if a is None else grad_output * a

    return Multiply.apply, (noise(3), noise(3, seed=1))


@healthy()
def function_that_calls_another():
    inner, _ = scalar_input()

    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x * x).exp()

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * 2 * x * inner(x).exp()

    return Outer.apply, (noise(3),)


@healthy()
def dropout_from_a_seed_with_a_generator():
    class Dropout(Function):
        @staticmethod
        def forward(ctx, x, p, seed):
            ctx.p, ctx.seed = p, seed
            return x * Dropout.mask(x, p, seed)

        @staticmethod
        def mask(x, p, seed):
            generator = torch.Generator().manual_seed(seed)
            return (torch.rand(x.shape, generator=generator, dtype=x.dtype) > p) / (1 - p)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * Dropout.mask(grad_output, ctx.p, ctx.seed), None, None

    return Dropout.apply, (noise(8), 0.5, 3)


@healthy()
def batch_norm_whose_equal_rows_magnify_round_off():
    return nn.BatchNorm1d(3).double(), (noise(6, 3),)
