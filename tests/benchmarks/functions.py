"""Time and memory of the fused and the stable Functions, as ratios within one run.

Each measurement runs in a process of its own: the best time of a few forward and backward passes, and how far the peak
of resident memory rises above what was there before. ``make bench`` writes ``docs/benchmarks/functions.json`` and a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from helpers import functions as f

THREADS = 2
LARGE = 10**7  # elements of the elementwise comparisons

Variant = Callable[..., Tensor]


def plain_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def plain_loss(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x @ weight.T, target)


def plain_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def attention_inputs(length: int) -> list[Tensor]:
    return [torch.randn(1, 4, length, 64, requires_grad=True) for _ in range(3)]


def loss_inputs(words: int) -> list[Tensor]:
    x, weight = torch.randn(2048, 256, requires_grad=True), torch.randn(words, 256, requires_grad=True)
    return [x, weight, torch.randint(0, words, (2048,))]


def pairs(size: int) -> list[Tensor]:
    return [torch.randn(size, requires_grad=True) for _ in range(2)]


def one(size: int) -> list[Tensor]:
    return [torch.randn(size, requires_grad=True)]


def grid(size: int) -> list[Tensor]:
    return [torch.randn(size // 100, 100, requires_grad=True)]


# name -> (inputs, sizes, variants); the first variant is what the ratios refer to
BENCHMARKS: dict[str, tuple[Callable[[int], list[Tensor]], list[int], dict[str, Variant]]] = {
    "attention": (
        attention_inputs,
        [1024, 2048, 4096],
        {"plain": plain_attention, "tiled": f.tiled_attention, "built-in": F.scaled_dot_product_attention},
    ),
    "attention, long": (attention_inputs, [8192, 16384], {"built-in": F.scaled_dot_product_attention, "tiled": f.tiled_attention}),
    "linear cross entropy": (loss_inputs, [8000, 32000], {"plain": plain_loss, "chunked": f.linear_cross_entropy}),
    "SwiGLU": (
        pairs,
        [LARGE],
        {
            "plain": plain_swiglu,
            "recomputed": f.recompute_swiglu,
            "checkpoint": lambda g, u: checkpoint(plain_swiglu, g, u, use_reentrant=False),
        },
    ),
    "logsumexp": (grid, [LARGE], {"built-in": lambda x: x.logsumexp(-1), "ours": f.logsumexp}),
    "softplus": (one, [LARGE], {"built-in": F.softplus, "ours": f.softplus}),
    "huber": (pairs, [LARGE], {"built-in": lambda a, b: F.huber_loss(a, b, reduction="none"), "ours": f.huber}),
}  # fmt: skip


def kept_bytes(fn: Variant, inputs: list[Tensor]) -> int:
    """Bytes that the graph keeps beside its inputs, each storage once."""
    own = {each.untyped_storage().data_ptr() for each in inputs}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = fn(*inputs)
    output_bytes = {output.untyped_storage().data_ptr()}
    return sum(size for place, size in kept.items() if place not in own | output_bytes)


def measure(name: str, variant: str, size: int, repeats: int) -> dict:
    """Measure one variant in this process."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    make, _, variants = BENCHMARKS[name]
    inputs, fn = make(size), variants[variant]
    wanted = [each for each in inputs if each.requires_grad]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        y = fn(*inputs)
        upstream = torch.ones_like(y)
        torch.autograd.grad(y, wanted, upstream)
        times.append(time.perf_counter() - start)
        del y
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": min(times), "peak_mb": (peak - before) / 1024, "kept_bytes": kept_bytes(fn, inputs)}


def in_a_process(name: str, variant: str, size: int, repeats: int) -> dict:
    command = [sys.executable, __file__, "--one", name, variant, str(size), str(repeats)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run(repeats: int, rounds: int) -> list[dict]:
    """All measurements, variants interleaved over ``rounds``; the best of each counts."""
    rows = []
    for name, (_, sizes, variants) in BENCHMARKS.items():
        for size in sizes:
            found: dict[str, dict] = {}
            for _ in range(rounds):
                for variant in variants:
                    made = in_a_process(
                        name, variant, size, repeats if size < 8192 or name != "attention, long" else 1
                    )
                    best = found.setdefault(variant, made)
                    found[variant] = {key: min(best[key], made[key]) for key in made}
            base = found[next(iter(variants))]
            for variant, made in found.items():
                ratios = {
                    "time_ratio": made["seconds"] / base["seconds"],
                    "memory_ratio": made["peak_mb"] / base["peak_mb"] if base["peak_mb"] else None,
                }
                rows.append(
                    {"benchmark": name, "size": size, "variant": variant, "baseline": next(iter(variants))}
                    | made
                    | ratios
                )
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict]) -> str:
    """The rows as a Markdown page."""
    lines = [
        "# What the Functions cost",
        "",
        f"Made by `make bench` on {THREADS} threads, float32, forward and backward. Ratios refer to the variant with ratio 1 of the same",
        "block; they are measured in one run, each in a process of its own. `extra peak` is resident memory over what was there before;",
        "`kept` is what the graph holds for backward beside inputs and output.",
        "",
        "| benchmark | size | variant | time | × | extra peak MB | × | kept MB |",
        "|---|--:|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ratio = f"{row['memory_ratio']:.2f}" if row["memory_ratio"] is not None else ""
        lines.append(
            f"| {row['benchmark']} | {row['size']} | {row['variant']} | {row['seconds']:.3f} s | {row['time_ratio']:.2f} | "
            f"{row['peak_mb']:.0f} | {ratio} | {row['kept_bytes'] / 1e6:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file to write; the table goes beside it as .md")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, variant, size, repeats = options.one
        print(json.dumps(measure(name, variant, int(size), int(repeats))))
        return
    rows = run(options.repeats, options.rounds)
    print(table(rows))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        options.out.with_suffix(".md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
