"""Time and memory of the fused and the stable Functions against plain autograd, checkpoint and what torch has built in.

Time: all variants in one process, taking turns; a ratio is the median, over the faster half of the turns, of the ratio
within a turn: a machine that slows down slows both, and turns that other programs disturbed do not count. Memory: one
variant per process, how far the peak of resident memory rises above what was there before, after a small call that
loads libraries and starts threads. ``make bench`` writes ``docs/benchmarks/functions.json`` and the page beside it, and
says which bars held.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LinearCrossEntropyOptions
from torch.utils.checkpoint import checkpoint

from helpers import functions as f

THREADS = 2
TINY = 100  # the size of the call before a measurement
TURNS, SECONDS = (5, 9), 4.0  # fewest and most turns, and when to stop between
SIZES = [10**5, 10**6, 10**7]

Variant = Callable[..., Tensor]


@dataclass(frozen=True)
class Benchmark:
    """Variants of one computation; ``largest`` is the size beyond which a variant is left out."""

    make: Callable[[int], list[Tensor]]
    sizes: list[int]
    variants: dict[str, Variant]
    largest: dict[str, int] = field(default_factory=dict)

    def at(self, size: int) -> list[str]:
        return [name for name in self.variants if size <= self.largest.get(name, size)]


def leaf(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def checkpointed(plain: Variant) -> Variant:
    return lambda *inputs: checkpoint(plain, *inputs, use_reentrant=False)


def elementwise(
    plain: Variant, ours: Variant, built_in: Variant | None = None, make: Callable | None = None
) -> Benchmark:
    variants = {"plain": plain, "checkpoint": checkpointed(plain), "built-in": built_in, "ours": ours}
    return Benchmark(
        make or (lambda size: [leaf(size)]), SIZES, {name: fn for name, fn in variants.items() if fn}
    )


def plain_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def plain_loss(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x @ weight.T, target)


def built_in_loss(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.linear_cross_entropy(x, weight, target, options=LinearCrossEntropyOptions())


def plain_logsumexp(x: Tensor) -> Tensor:
    top = x.detach().amax(-1, keepdim=True)
    return (x - top).exp().sum(-1).log() + top.squeeze(-1)


def plain_log1mexp(x: Tensor) -> Tensor:
    return torch.where(x < 0.693, torch.log(-torch.expm1(-x)), torch.log1p(-torch.exp(-x)))


def plain_sqrt(x: Tensor) -> Tensor:
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


def plain_huber(input: Tensor, target: Tensor) -> Tensor:
    size = (input - target).abs()
    return torch.where(size <= 1, size**2 / 2, size - 0.5)


def built_in_huber(input: Tensor, target: Tensor) -> Tensor:
    return F.huber_loss(input, target, reduction="none")


def loss_inputs(words: int) -> list[Tensor]:
    return [leaf(2048, 256), leaf(words, 256), torch.randint(0, words, (2048,))]


def positive(size: int) -> list[Tensor]:
    return [torch.rand(size).add_(0.01).requires_grad_()]


def table_of_100(size: int) -> list[Tensor]:
    return [leaf(size // 100, 100)]


BENCHMARKS = {
    "TiledAttention": Benchmark(
        lambda length: [leaf(1, 4, length, 64) for _ in range(3)],
        [1024, 2048, 4096, 8192, 16384],
        {
            "plain": plain_attention,
            "checkpoint": checkpointed(plain_attention),
            "built-in": F.scaled_dot_product_attention,
            "ours": f.tiled_attention,
        },
        {"plain": 4096, "checkpoint": 4096},
    ),
    "LinearCrossEntropy": Benchmark(
        loss_inputs,
        [2000, 8000, 32000],
        {
            "plain": plain_loss,
            "checkpoint": checkpointed(plain_loss),
            "built-in": built_in_loss,
            "ours": f.linear_cross_entropy,
            "ours, vocabulary_chunk=4000": lambda *inputs: f.linear_cross_entropy(
                *inputs, vocabulary_chunk=4000
            ),
        },
    ),
    "RecomputeSwiGLU": elementwise(
        lambda gate, up: F.silu(gate) * up, f.recompute_swiglu, make=lambda n: [leaf(n), leaf(n)]
    ),
    "LogSumExp": elementwise(plain_logsumexp, f.logsumexp, lambda x: x.logsumexp(-1), table_of_100),
    "Softplus": elementwise(
        lambda x: x.clamp(min=0) + torch.log1p(torch.exp(-x.abs())), f.softplus, F.softplus
    ),
    "Log1mExp": elementwise(plain_log1mexp, f.log1mexp, make=positive),
    "SafeSqrt": elementwise(plain_sqrt, f.safe_sqrt, torch.sqrt, positive),
    "SafeNorm": elementwise(
        lambda x: x.square().sum(-1).sqrt(),
        lambda x: f.safe_norm(x, -1),
        lambda x: torch.linalg.vector_norm(x, dim=-1),
        table_of_100,
    ),
    "Huber": elementwise(plain_huber, f.huber, built_in_huber, lambda n: [leaf(n), leaf(n)]),
    "Huber, gradient of the input only": elementwise(
        plain_huber, f.huber, built_in_huber, lambda n: [leaf(n), torch.randn(n)]
    ),
}


# -- measuring ----------------------------------------------------------------------------------------------------


def forward_and_backward(fn: Variant, inputs: list[Tensor]) -> None:
    y = fn(*inputs)
    torch.autograd.grad(y, [each for each in inputs if each.requires_grad], torch.ones_like(y))


def prepared(name: str, size: int, variants: list[str]) -> list[Tensor]:
    """Inputs of the given size, after a tiny call of each variant."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    benchmark = BENCHMARKS[name]
    for variant in variants:
        forward_and_backward(benchmark.variants[variant], benchmark.make(TINY))
    return benchmark.make(size)


def seconds(name: str, size: int) -> dict[str, list[float]]:
    """Seconds of each variant in each turn; each turn begins with another variant."""
    order = BENCHMARKS[name].at(size)
    inputs = prepared(name, size, order)
    found: dict[str, list[float]] = {variant: [] for variant in order}
    begin = time.perf_counter()
    least, most = TURNS if "plain" in order else (1, 1)
    for turn in range(most):
        if turn >= least and time.perf_counter() - begin > SECONDS:
            break
        for variant in order[turn % len(order) :] + order[: turn % len(order)]:
            start = time.perf_counter()
            forward_and_backward(BENCHMARKS[name].variants[variant], inputs)
            found[variant].append(round(time.perf_counter() - start, 6))
    return found


def memory(name: str, size: int, variant: str) -> dict[str, float]:
    """Extra peak of resident memory, and what the graph keeps, in megabytes."""
    inputs = prepared(name, size, [variant])
    fn = BENCHMARKS[name].variants[variant]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forward_and_backward(fn, inputs)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    kept, beyond = kept_megabytes(fn, inputs, holds_inputs=variant == "checkpoint")
    return {"peak_mb": round(peak, 2), "kept_mb": round(kept, 2), "beyond_mb": round(beyond, 2)}


def kept_megabytes(fn: Variant, inputs: list[Tensor], holds_inputs: bool) -> tuple[float, float]:
    """What the graph keeps for backward: all of it, and what is neither an input nor the output. A storage counts once.

    ``holds_inputs``: checkpoint keeps its arguments in a closure, where the hooks do not look.
    """

    def storages(tensors: list[Tensor]) -> dict[int, int]:
        return {s.data_ptr(): s.nbytes() for s in (each.untyped_storage() for each in tensors)}

    kept: list[Tensor] = list(inputs) if holds_inputs else []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda x: x):
        output = fn(*inputs)
    known = storages([*inputs, output])
    sizes = storages(kept)
    return sum(sizes.values()) / 2**20, sum(n for place, n in sizes.items() if place not in known) / 2**20


def measure() -> list[dict]:
    """One row for each benchmark, size and variant."""
    rows = []
    # A fresh process for each task, forked from one that has torch.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "helpers.functions", "torch.utils.checkpoint"])
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for name, benchmark in BENCHMARKS.items():
            for size in benchmark.sizes:
                times = pool.submit(seconds, name, size).result()
                for variant in benchmark.at(size):
                    row = {"benchmark": name, "size": size, "variant": variant, "seconds": times[variant]}
                    rows.append(row | pool.submit(memory, name, size, variant).result())
                print(f"{name} {size}: { ({k: min(v) for k, v in times.items()}) }", flush=True)
    return rows


# -- judging ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """``ours`` is to be at most ``limit`` times ``other``, in ``quantity``; or "ours" at one size times another's."""

    benchmark: str
    size: int
    quantity: str
    other: str
    limit: float
    other_size: int | None = None

    @property
    def sentence(self) -> str:
        what = {"seconds": "time", "peak_mb": "extra peak", "kept_mb": "kept", "beyond_mb": "kept beyond"}
        other = f"its own at {self.other_size}" if self.other_size else f"that of {self.other}"
        return f"`{self.benchmark}` at {self.size}: {what[self.quantity]} against {other}"


BARS = [
    Bar("TiledAttention", 4096, "peak_mb", "built-in", 1.6),
    Bar("TiledAttention", 4096, "peak_mb", "plain", 0.2),
    Bar("TiledAttention", 4096, "seconds", "plain", 1.0),
    Bar("TiledAttention", 8192, "peak_mb", "ours", 2.2, 4096),
    Bar("TiledAttention", 16384, "peak_mb", "ours", 2.2, 8192),
    Bar("LinearCrossEntropy", 32000, "peak_mb", "plain", 0.3),
    Bar("LinearCrossEntropy", 32000, "seconds", "plain", 1.05),
    Bar("RecomputeSwiGLU", 10**7, "beyond_mb", "plain", 0.5),
    Bar("RecomputeSwiGLU", 10**7, "kept_mb", "plain", 0.5),
    Bar("RecomputeSwiGLU", 10**7, "seconds", "checkpoint", 1.0),
    *(Bar(name, 10**7, "seconds", "built-in", 1.3) for name in BENCHMARKS if name[:5] in ("LogSu", "Softp", "Huber")),
]  # fmt: skip


def ratio(row: dict, other: dict | None, quantity: str) -> float | None:
    """``row`` over ``other``: for seconds, the median over the faster half of the turns; ``None`` without a basis."""
    if other is None:
        return None
    if quantity == "seconds":
        if row["size"] != other["size"]:
            return None
        turns = sorted(zip(row["seconds"], other["seconds"], strict=True), key=sum)
        return statistics.median(mine / theirs for mine, theirs in turns[: (len(turns) + 1) // 2])
    return row[quantity] / other[quantity] if other[quantity] >= 1 else None  # below 1 MB, noise


def page(report: dict) -> str:
    """The report as Markdown; every verdict is computed from its rows."""
    rows = {(row["benchmark"], row["size"], row["variant"]): row for row in report["rows"]}
    lines = [
        "# What the Functions cost",
        "",
        f"Made by `make bench`: torch {report['torch']}, {report['threads']} threads, float32, forward and backward. The machine's load"
        f" was {report['load'][0]:.1f} before the run and {report['load'][1]:.1f} at its end, of which {report['threads']} were the run's"
        " own. The variants of a block take turns in one process; seconds are the best turn's, and a time ratio is the median of the"
        " ratios within a turn, over the faster half of the turns (the others may have been disturbed). Memory is measured in a process"
        " of its own for each variant, after a small call that loads libraries and starts threads: `extra peak` is how far resident"
        " memory rises. `kept` is what the graph holds for backward; `beyond`, the part of it that is neither an input nor the output.",
        "",
        "## The bars",
        "",
        "| bar | at most | found | held |",
        "|---|--:|--:|---|",
    ]
    for bar in BARS:
        mine = rows[bar.benchmark, bar.size, "ours"]
        found = ratio(mine, rows[bar.benchmark, bar.other_size or bar.size, bar.other], bar.quantity)
        lines.append(
            f"| {bar.sentence} | {bar.limit:g} | {found:.2f} | {'yes' if found <= bar.limit else '**no**'} |"
        )
    lines += [
        "",
        "Twice the length with at most 2.2 times the memory is linear growth. `RecomputeSwiGLU` keeps nothing beyond its inputs; with the"
        " inputs counted, autograd keeps three tensors and it keeps two. Two thirds is the floor for an elementwise product of"
        " two inputs, for the gradient of each input needs the other.",
        "",
        "## All measurements",
        "",
        "| Function | size | variant | seconds | × plain | × built-in | extra peak MB | × plain | × built-in | kept MB | beyond MB |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (name, size, variant), row in rows.items():
        others = [rows.get((name, size, other)) for other in ("plain", "built-in")]
        time_ratios, peak_ratios = (
            " | ".join("" if (x := ratio(row, other, quantity)) is None else f"{x:.2f}" for other in others)
            for quantity in ("seconds", "peak_mb")
        )
        lines.append(
            f"| {name} | {size} | {variant} | {min(row['seconds']):.4f} | {time_ratios} | {row['peak_mb']:.1f}"
            f" | {peak_ratios} | {row['kept_mb']:.1f} | {row['beyond_mb']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write; the page goes beside it as .md")
    out = parser.parse_args().out
    before = os.getloadavg()[0]
    rows = measure()
    report = {
        "torch": torch.__version__,
        "threads": THREADS,
        "load": [before, os.getloadavg()[0]],
        "rows": rows,
    }
    print(page(report))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1), encoding="utf-8")
        out.with_suffix(".md").write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
