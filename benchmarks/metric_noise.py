"""Tokens per second of MetricNoise, and how many stay, beside brute force in float64.

    OMP_NUM_THREADS=1 python benchmarks/metric_noise.py [--size 11000] [--index]

The baseline draws the same noise and takes the arg min of SciPy's ``cdist``; the ratio is of one
run. ``--index`` adds the approximate index: its speed, what it takes to build, and its recall.
The limits of threads must be set before the start; FAISS reads the same variable.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.spatial.distance import cdist

import dp_middleware as dp
from dp_middleware.mechanisms import _nearest, _noise
from dp_middleware.mechanisms.metric_noise import MetricNoise
from dp_middleware.sampling import os_entropy

ETAS = (10.0, 30.0, 50.0, 70.0, 100.0, 200.0)
TOKENS = 4000
BASELINE = 200  # tokens of the baseline, which is slow


def rate(release, ids, rounds=3):
    """Tokens per second, the best of some rounds, and the share of tokens that stay."""
    fastest, released = np.inf, release(ids)  # the first call prepares tables
    for _ in range(rounds):
        started = time.perf_counter()
        released = release(ids)
        fastest = min(fastest, time.perf_counter() - started)
    return len(ids) / fastest, float((released == ids).mean())


def brute_force(ids, space, eta):
    """The same release with all distances in float64."""
    dimensions = space.vectors.shape[1]
    noise = _noise.random_vectors(len(ids), dimensions, eta, os_entropy)
    points = _noise.snapped(space.vectors[ids] + noise, _noise.spacing(eta, dimensions))
    return cdist(points, space.vectors).argmin(axis=1)


def row(space, ids, eta, with_index):
    """One line of the table."""
    ours, kept = rate(lambda k: MetricNoise(eta=eta).perturb(k, space, os_entropy), ids)
    baseline, _ = rate(lambda k: brute_force(k, space, eta), ids[:BASELINE], rounds=2)
    distance = _noise.float_distance(
        space.vectors.shape[1], eta, float(np.abs(space.vectors).max())
    )
    shown = [f"{eta:g}", f"{eta * space.diameter:.0f}", f"{ours:,.0f}", f"{baseline:,.0f}"]
    shown += [f"{ours / baseline:.1f}", f"{kept:.1%}", f"{distance:.1e}"]
    if with_index:
        mechanism = MetricNoise(eta=eta, index="approximate")
        speed, _ = rate(lambda k: mechanism.perturb(k, space, os_entropy), ids[:1000])
        shown += [f"{speed:,.0f}", f"{_nearest.recall(space, eta):.1%}"]
    return shown


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=11_000, help="tokens of cl100k")
    parser.add_argument("--index", action="store_true", help="the approximate index too")
    options = parser.parse_args()
    vocabulary = dp.Vocabulary.from_tiktoken("cl100k_base", size=options.size)
    space = dp.EmbeddingService().space(vocabulary, "input")
    distinct = len(np.unique(space.vectors, axis=0))
    print(f"{space!r}, {distinct} distinct vectors, diameter {space.diameter:.3f}\n")
    if options.index:
        started = time.perf_counter()
        _nearest.nearly_nearest(space, space.vectors[:1])
        print(f"index built in {time.perf_counter() - started:.1f} s\n")
    header = ["eta", "epsilon", "tokens/s", "cdist tokens/s", "ratio", "kept", "float64 distance"]
    header += ["index tokens/s", "recall"] if options.index else []
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    ids = np.resize(space.spread(TOKENS), TOKENS)
    for eta in ETAS:
        print("| " + " | ".join(row(space, ids, eta, options.index)) + " |", flush=True)


if __name__ == "__main__":
    main()
