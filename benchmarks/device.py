"""Rows, certificates and noise on an accelerator, against the CPU and against the card's limits.

    python benchmarks/device.py [--device auto] [--size 11000] [--certify 11000 --certify 100256]

Random unit vectors (d = 384). Limits of the same run: ``copy`` is the memory bandwidth of cloning a
large tensor, ``product`` the rate of a large float64 matrix product. A row that is made and read
once moves 16 V bytes, one that is a product takes 2 V d operations; further passes lower the
shares; rows from short lists (custext, dyntext) need neither. The last columns: the largest
|ln P_device - ln P_cpu|, and whether every integer lies in the interval that the certificate states
for all devices. ``--device cpu`` measures the CPU against its own limits.
"""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pages
import torch
from exact_epsilon import mechanism_named

import dp_middleware as dp
from dp_middleware.certification.enumeration import RECOMPUTED, left_over_drift
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler

EPSILON, COMPARED, NOISY, DIMENSIONS = 3.0, 256, 20_000, 384
CERTIFIED = ("token-exponential", "nearest-response", "rantext-strict")
COPIED, SIDE = 1 << 28, 4096  # bytes; of a square product
HEADS = ("mechanism", "rows/s, CPU", "rows/s, device", "ratio", "share of copy")
HEADS += ("share of product", "ln P apart", "integers agree")
CHANNELS = [n for n, kind in dp.MECHANISMS.items() if issubclass(kind, ChannelMechanism)]

clocked = partial(pages.timed, clock=time.perf_counter)


def random_space(size: int, device: str) -> dp.EmbeddingSpace:
    vectors = np.random.default_rng(0).normal(size=(size, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(dp.Vocabulary([f"w{k}" for k in range(size)]), vectors, device=device)


def fastest(work: Callable[[], torch.Tensor], rounds: int = 3) -> float:
    """Seconds of the best round, each until its result can be read, after one that loads."""
    taken = [clocked(lambda: work().ravel()[-1].item())[0] for _ in range(rounds + 1)]
    return min(taken[1:])


def row_line(
    name: str, host: dp.EmbeddingSpace, space: dp.EmbeddingSpace, limits: tuple[float, float]
) -> list[str]:
    """Rows per second, shares of the limits, agreement of logarithms and of integers."""
    mechanism, size = mechanism_named(name, EPSILON, host), len(host)
    ids = np.arange(min(4 * space.block, size))
    few = ids[:COMPARED]
    here, there = (rows_of(mechanism, few, where).cpu().numpy() for where in (host, space))
    taken = fastest(lambda: rows_of(mechanism, ids, space)) / len(ids)
    on_host = fastest(lambda: rows_of(mechanism, few, host)) / len(few)
    possible = np.isfinite(here) & np.isfinite(there)
    apart = np.abs(here[possible] - there[possible]).max()
    ours, theirs = (sampler.integer_rows(rows) for rows in (here, there))
    own, found = ((part.weights * part.units).numpy() for part in (ours, theirs))
    steepest, largest = max(1.0, -float(here[possible].min())), float(own.max(axis=1).min())
    drift = RECOMPUTED * max(1.0, 0.1 * steepest) + left_over_drift(steepest, size, largest)
    within = np.abs(found - own) <= np.expm1(drift) * own + ours.units.numpy()
    rates = (f"{1 / on_host:,.0f}", f"{1 / taken:,.0f}", f"{on_host / taken:.1f}")
    work = (16 * size, 2 * size * DIMENSIONS)
    shares = [f"{part / taken / limit:.1%}" for part, limit in zip(work, limits, strict=True)]
    return [name, *rates, *shares, f"{apart:.1e}", "yes" if within.all() else "NO"]


def certificate_line(name: str, size: int, device: str) -> list[str]:
    space = random_space(size, device)
    mechanism = mechanism_named(name, EPSILON, space)
    taken, made = clocked(dp.certify, mechanism, space)
    cuda = space.device.type == "cuda"
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.2f}" if cuda else "-"
    figures = (f"{taken:.1f}", f"{made.epsilon:.4f}", f"{size * size / taken:.2e}")
    return [f"{size:,}", name, *figures, memory]


def noise_line(name: str, space: dp.EmbeddingSpace) -> list[str]:
    drawing = drawer(mechanism_named(name, 30.0, space), space)
    ids = np.resize(space.spread(len(space)), NOISY)
    drawing.draw([ids[:10]], sampler.os_entropy)
    taken = clocked(drawing.draw, [ids], sampler.os_entropy)[0] / len(ids)
    return [name, f"{1 / taken:,.0f}", f"{2 * len(space) * DIMENSIONS / taken / 1e9:,.0f}"]


def measure() -> None:
    options = pages.options(__doc__, device="auto", size=11_000, certify=[int])
    size, device = options.size, options.device
    space, host = random_space(size, device), random_space(size, "cpu")
    source = torch.ones(COPIED // 8, dtype=torch.float64, device=space.device)
    square = torch.ones(SIDE, SIDE, dtype=torch.float64, device=space.device)
    limits = 2 * COPIED / fastest(source.clone), 2 * SIDE**3 / fastest(lambda: square @ square)
    card = torch.cuda.get_device_name() if space.device.type == "cuda" else "the CPU"
    print(f"{card}: copy {limits[0] / 1e9:,.0f} GB/s, product {limits[1] / 1e9:,.0f} GFLOP/s")
    print(f"V = {size:,}, d = {DIMENSIONS}, nominal {EPSILON:g}")
    print(pages.markdown(HEADS, [row_line(n, host, space, limits) for n in CHANNELS]), end="\n\n")
    noises = [noise_line(name, space) for name in ("metric-noise", "dchi-stencil")]
    print(pages.markdown(["noise", "tokens/s", "GFLOP/s"], noises), end="\n\n")
    heads = ["V", "mechanism", "certify s", "exact epsilon", "pairs/s", "peak GB on the card"]
    sizes = options.certify or [size]
    lines = [certificate_line(name, each, device) for each in sizes for name in CERTIFIED]
    print(pages.markdown(heads, lines))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:  # certificates are computed, not read from disk
        os.environ["DP_MIDDLEWARE_CACHE"] = cache
        measure()
