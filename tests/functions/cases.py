"""How each Function on the shelf is exercised."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers import functions as f
from tests.functions.battery import DOUBLE, Case

KNOTS = torch.linspace(0, 1, 6, dtype=DOUBLE)
PLACES = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 1, 2, 2])


def _rand(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=DOUBLE) for shape in shapes]


def _spline(seed: int) -> list[Tensor]:
    x, values = _rand(seed, (4,), (6,))
    return [x.sigmoid(), KNOTS.clone(), values]


def _matrix(seed: int) -> list[Tensor]:
    values, b = _rand(seed, (5,), (3,))
    return [values + torch.tensor([4.0, 0, 4, 0, 4], dtype=DOUBLE), b]


def _contraction(z: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(0.3 * w @ z + b)


def _unrolled(w: Tensor, b: Tensor) -> Tensor:
    z = torch.zeros(3, dtype=w.dtype)
    for _ in range(200):
        z = _contraction(z, w, b)
    return z


TARGET = torch.tensor([1, 4, -100, 0, 2])

CASES = [
    Case(f.Huber, f.huber, ((2, 3), (2, 3)), lambda a, b: F.huber_loss(a, b, reduction="none"), elementwise=True),
    Case(f.Quantile, lambda a, b: f.quantile(a, b, 0.8), ((2, 3), (2, 3)), lambda a, b: torch.maximum(0.8 * (b - a), -0.2 * (b - a)), elementwise=True),
    Case(f.Focal, lambda a: f.focal(a, (torch.arange(a.numel()) % 2).reshape(a.shape)), ((2, 3),), elementwise=True),
    Case(f.Contrastive, lambda a, b: f.contrastive(a, b, 0.5), ((4, 3), (4, 3)), lambda a, b: F.cross_entropy(F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.5, torch.arange(4))),
    Case(f.LogSumExp, lambda x: f.logsumexp(x, 1), ((2, 3),), lambda x: x.logsumexp(1)),
    Case(f.Log1mExp, f.log1mexp, ((2, 3),), lambda x: (1 - (-x).exp()).log(), low=0.1, high=3.0, elementwise=True),
    Case(f.SafeSqrt, f.safe_sqrt, ((2, 3),), torch.sqrt, low=0.1, high=3.0, elementwise=True),
    Case(f.SafeNorm, lambda x: f.safe_norm(x, 1), ((2, 3),), lambda x: x.norm(dim=1)),
    Case(f.Softplus, lambda x: f.softplus(x, 2.0), ((2, 3),), lambda x: F.softplus(x, 2.0), elementwise=True),
    Case(f.StopGradient, f.stop_gradient, ((2, 3),), elementwise=True),
    Case(f.ScaleGradient, lambda x: f.scale_gradient(x, 0.3), ((2, 3),), elementwise=True),
    Case(f.ReverseGradient, lambda x: f.reverse_gradient(x, 0.3), ((2, 3),), elementwise=True),
    Case(f.ClipGradientValue, lambda x: f.clip_gradient_value(x, 0.2), ((2, 3),), elementwise=True),
    Case(f.ClipGradientNorm, lambda x: f.clip_gradient_norm(x, 0.2), ((2, 3),), elementwise=True),
    Case(f.StraightThroughRound, f.straight_through_round, ((2, 3),), elementwise=True),
    Case(f.SurrogateStep, f.surrogate_step, ((2, 3),), elementwise=True),
    Case(f.Cube, f.cube, ((2, 3),), lambda x: x**3, elementwise=True),
    Case(f.Exp, f.exp, ((2, 3),), torch.exp, elementwise=True),
    Case(f.MatMulBias, f.matmul_bias, ((4, 3), (2, 3), (2,)), F.linear),
    Case(f.Softmax, lambda x: f.softmax(x, 1), ((2, 3),), lambda x: x.softmax(1)),
    Case(f.LayerNorm, f.layer_norm, ((4, 3), (3,), (3,)), lambda x, w, b: F.layer_norm(x, (3,), w, b)),
    Case(f.RecomputeSwiGLU, f.recompute_swiglu, ((2, 3), (2, 3)), lambda g, u: F.silu(g) * u, elementwise=True),
    Case(f.TiledAttention, f.tiled_attention, ((2, 5, 3), (2, 4, 3), (2, 4, 2)), F.scaled_dot_product_attention),
    Case(f.LinearCrossEntropy, lambda x, w: f.linear_cross_entropy(x, w, TARGET, chunk=2), ((5, 3), (6, 3)), lambda x, w: F.cross_entropy(x @ w.T, TARGET)),
    Case(f.CubicSpline, f.cubic_spline, (), fixed=(1,), sample=_spline),
    Case(f.SparseSolve, lambda v, b: f.sparse_solve(v, *PLACES, b), (), lambda v, b: torch.linalg.solve(torch.zeros(3, 3, dtype=v.dtype).index_put(PLACES, v), b), sample=_matrix),
    Case(f.FixedPoint, lambda w, b: f.fixed_point(_contraction, torch.zeros(3, dtype=w.dtype), w, b), ((3, 3), (3,)), _unrolled, low=-1, high=1),
    Case(f.Pendulum, lambda p: f.simulate(p, steps=20), ((3,),), low=0.3, high=1.5),
]  # fmt: skip
