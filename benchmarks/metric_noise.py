"""Microseconds per token of MetricNoise, beside the bare matrix product of the same size.

    OMP_NUM_THREADS=1 python benchmarks/metric_noise.py [--size 11000] [--tokens 10000]
        [--device auto] [--random]

The product is that of points, float32 (n, d + 1), and a table (d + 1, V), by NumPy and by torch
in several block sizes; the fastest counts. ``ratio`` is ours to it. On the CPU all times are CPU
time, the best of some rounds, and ``cdist`` is SciPy's float64 brute force with the same noise. On
another device times are by the clock, the product is float64, as ours is there, and ``share`` says
which part of the rate of a large square product the search reaches. ``--random`` takes unit vectors
that are all distinct (of cl100k's many are equal, and are searched once).
The limits of threads must be set before the start.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from limits import product_rate, random_space
from scipy.spatial.distance import cdist

import dp_middleware as dp
from dp_middleware.mechanisms.kernels import filter, nearest, noise as _noise
from dp_middleware.mechanisms.metric_noise import MetricNoise
from dp_middleware.mechanisms.stencil import DChiStencil, Stencil
from dp_middleware.sampling.sampler import bulk_entropy

ETAS = (10.0, 30.0, 50.0, 70.0, 100.0, 200.0)
STAGES_AT = 50.0  # eta
BASELINE = 200  # tokens of brute force, which is slow
BLOCKS = (64, 256, 1024)


def space_of(options: argparse.Namespace) -> dp.EmbeddingSpace:
    """The vectors that tokens are searched among."""
    if not options.random:
        vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=options.size)
        space = dp.EmbeddingService().space(vocabulary, "input")
        return dp.EmbeddingSpace(vocabulary, space.vectors, device=options.device)
    return random_space(options.size, 384, options.device)


class Clock:
    """CPU time where all work is done by the CPU, else the clock's."""

    def __init__(self, space: dp.EmbeddingSpace) -> None:
        self._now = time.process_time if space.device.type == "cpu" else time.perf_counter

    def micros(self, work, count, rounds=3):
        """Microseconds per token, the best of some rounds after one that prepares tables."""
        work()
        fastest = np.inf
        for _ in range(rounds):
            started = self._now()
            work()
            fastest = min(fastest, self._now() - started)
        return 1e6 * fastest / count


def bare_product(space: dp.EmbeddingSpace, clock: Clock) -> float:
    """Microseconds per token of the product alone."""
    size, dimensions = space.vectors.shape
    table = np.random.default_rng(0).normal(size=(dimensions + 1, size)).astype(np.float32)
    found = []
    for block in BLOCKS:
        points = np.random.default_rng(1).normal(size=(block, dimensions + 1)).astype(np.float32)
        turns = range(-(-BLOCKS[-1] // block))
        if space.device.type == "cpu":
            target = np.empty((block, size), dtype=np.float32)
            there = [torch.from_numpy(each) for each in (points, table, target)]
            works = [
                lambda p=points, t=target, n=turns: [np.matmul(p, table, out=t) for _ in n],
                lambda w=there, n=turns: [torch.mm(w[0], w[1], out=w[2]) for _ in n],
            ]
        else:
            pair = [space.on_device(each.astype(np.float64)) for each in (points, table)]
            works = [lambda w=pair, n=turns: [w[0] @ w[1] for _ in n][-1][0, 0].item()]
        found += [clock.micros(work, block * len(turns), rounds=5) for work in works]
    return min(found)


def brute_force(ids, space, eta):
    """The same release with all distances in float64."""
    dimensions = space.vectors.shape[1]
    noise = _noise.random_vectors(len(ids), dimensions, eta, bulk_entropy)
    points = _noise.snapped(space.points[ids] + noise, _noise.spacing(eta, dimensions))
    return cdist(points, space.points).argmin(axis=1)


def row(space, ids, eta, clock, rate):
    """One line of the table; the product is measured beside it, as machines vary."""
    mechanism = MetricNoise(eta=eta)
    product = bare_product(space, clock)
    ours = clock.micros(lambda: mechanism.perturb(ids, space, bulk_entropy), len(ids))
    kept = float((mechanism.perturb(ids, space, bulk_entropy) == ids).mean())
    few = ids[:BASELINE]
    baseline = clock.micros(lambda: brute_force(few, space, eta), len(few), rounds=1)
    shown = [f"{eta:g}", f"{eta * space.diameter:.0f}", f"{ours:.1f}", f"{1e6 / ours:,.0f}"]
    shown += [f"{product:.1f}", f"{ours / product:.2f}", f"{baseline / ours:.1f}", f"{kept:.1%}"]
    shown += [f"{_noise.space_distance(space, eta):.1e}"]
    if rate is not None:
        points = noisy(ids, space, eta)
        taken = clock.micros(lambda: nearest.nearest(space, points), len(ids))
        columns = len(filter.frame(space).first)
        shown += [f"{2 * (points.shape[1] + 1) * columns / taken / rate:.1%}"]
    return shown


def noisy(ids, space, eta):
    """Snapped noisy vectors, as they are searched for."""
    return nearest.noisy(space.points[ids], eta, bulk_entropy)


def stages(space, ids, clock):
    """Lines: what the parts of one release take, and the other noise mechanisms."""
    ids = ids[: nearest.BLOCK]
    count, dimensions = len(ids), space.vectors.shape[1]
    points = noisy(ids, space, STAGES_AT)
    centres = space.points[ids]
    product = bare_product(space, clock)
    parts = {
        "entropy": lambda: bulk_entropy(32 * count * dimensions),
        "noise, snapped; entropy too": lambda: nearest.noisy(centres, STAGES_AT, bulk_entropy),
        "search": lambda: nearest.nearest(space, points),
        "MetricNoise": lambda: MetricNoise(eta=STAGES_AT).perturb(ids, space, bulk_entropy),
        "DChiStencil": lambda: DChiStencil(eta=STAGES_AT).perturb(ids, space, bulk_entropy),
        "Stencil": lambda: Stencil().perturb(ids, space, bulk_entropy),
    }
    taken = {name: clock.micros(work, count, rounds=10) for name, work in parts.items()}
    taken["bare product"] = product
    return [[name, f"{each:.1f}", f"{each / product:.2f}"] for name, each in taken.items()]


def table(header, lines):
    """As Markdown."""
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for line in lines:
        print("| " + " | ".join(line) + " |", flush=True)


def main() -> None:
    """Print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=11_000, help="tokens of cl100k")
    parser.add_argument("--tokens", type=int, default=10_000, help="of one text")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--random", action="store_true", help="random unit vectors instead")
    options = parser.parse_args()
    space = space_of(options)
    clock, ids = Clock(space), np.resize(space.spread(options.tokens), options.tokens)
    rate = product_rate(space.device) / 1e6 if space.device.type != "cpu" else None
    card = torch.cuda.get_device_name() if space.device.type == "cuda" else "the CPU"
    print(f"{space!r} on {card}, {len(filter.frame(space).first):,} distinct vectors")
    print(f"filter: {type(filter.filter_of(space)).__name__}\n")
    table(["stage", "us a token", "ratio"], stages(space, ids, clock))
    header = [
        "eta",
        "epsilon",
        "us a token",
        "tokens/s",
        "product us",
        "ratio",
        "cdist / ours",
        "kept",
    ]
    header += ["float64 distance", *(["share"] if rate is not None else [])]
    print()
    lines = (row(space, ids, eta, clock, rate) for eta in ETAS)
    table(header, lines)


if __name__ == "__main__":
    main()
