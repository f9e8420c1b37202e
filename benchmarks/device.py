"""Rows, certificates and noise on an accelerator, against the CPU and against the card's limits.

    python benchmarks/device.py [--device auto] [--size 11000] [--dimensions 384]
                                [--certify 11000 --certify 100256] [--mechanism NAME ...]

Random unit vectors. The limits are measured in the same run: ``copy`` is the memory bandwidth of
cloning a large tensor, ``product`` the rate of a large float64 matrix product. For each channel:
rows per second on the CPU and on the device, and which share of the two limits they reach. A row
that is made and read once moves 16 V bytes, one that is a product takes 2 V d operations; passes
beyond these lower the shares, which is what they are to show; rows from short lists (custext,
dyntext) need neither. The last columns: the largest |ln P_device - ln P_cpu|, and whether every
integer lies in the interval that the certificate states for all devices.

Without an accelerator ``--device cpu`` measures the CPU against its own limits.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from exact_epsilon import mechanism_named

import dp_middleware as dp
from dp_middleware.certification.enumeration import RECOMPUTED, left_over_drift
from dp_middleware.mechanisms import ChannelMechanism
from dp_middleware.mechanisms.base import rows_of
from dp_middleware.mechanisms.drawing import drawer
from dp_middleware.sampling import sampler
from dp_middleware.sampling.sampler import os_entropy

EPSILON, COMPARED, NOISY = 3.0, 256, 20_000
CERTIFIED = ("token-exponential", "nearest-response", "rantext-strict")
COPIED = 1 << 28  # bytes
SIDE = 4096  # of a square product


def random_space(size: int, dimensions: int, device: str = "auto") -> dp.EmbeddingSpace:
    """Unit vectors in random directions."""
    vectors = np.random.default_rng(0).normal(size=(size, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return dp.EmbeddingSpace(dp.Vocabulary([f"w{k}" for k in range(size)]), vectors, device=device)


def bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written, of a copy."""
    source = torch.ones(COPIED // 8, dtype=torch.float64, device=device)
    return 2 * COPIED / fastest(source.clone)


def product_rate(device: torch.device) -> float:
    """Operations a second of a large square product in float64."""
    square = torch.ones(SIDE, SIDE, dtype=torch.float64, device=device)
    return 2 * SIDE**3 / fastest(lambda: square @ square)


def fastest(work: Callable[[], torch.Tensor], rounds: int = 3) -> float:
    """Seconds of the best of some rounds by the clock, each until its result can be read.

    A round before them does not count: libraries load at first use.
    """
    taken = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        work().ravel()[-1].item()
        taken.append(time.perf_counter() - started)
    return min(taken[1:])


def row_line(
    mechanism: ChannelMechanism,
    host: dp.EmbeddingSpace,
    space: dp.EmbeddingSpace,
    bounds: tuple[float, float],
) -> list[str]:
    """Rows per second, shares of the limits, agreement."""
    ids = np.arange(min(4 * space.block, len(space)))
    rows_of(mechanism, ids[:2], space)  # public quantities of the space
    rows_of(mechanism, ids[:2], host)
    taken = fastest(lambda: rows_of(mechanism, ids, space)) / len(ids)
    few = ids[:COMPARED]
    on_host = fastest(lambda: rows_of(mechanism, few, host)) / len(few)
    size, dimensions = host.vectors.shape
    return [
        mechanism.name,
        f"{1 / on_host:,.0f}",
        f"{1 / taken:,.0f}",
        f"{on_host / taken:.1f}",
        f"{16 * size / taken / bounds[0]:.1%}",
        f"{2 * size * dimensions / taken / bounds[1]:.1%}",
        *agreement(mechanism, few, host, space),
    ]


def agreement(
    mechanism: ChannelMechanism, ids: np.ndarray, host: dp.EmbeddingSpace, space: dp.EmbeddingSpace
) -> tuple[str, str]:
    """How far logarithms lie apart, and whether integers keep to the certificate's interval."""
    here, there = (rows_of(mechanism, ids, where).cpu().numpy() for where in (host, space))
    possible = np.isfinite(here) & np.isfinite(there)
    apart = np.abs(here[possible] - there[possible]).max()
    ours, theirs = (sampler.integer_rows(rows) for rows in (here, there))
    own, found = ((part.weights * part.units).numpy() for part in (ours, theirs))
    steepest, largest = max(1.0, -float(here[possible].min())), float(own.max(axis=1).min())
    drift = RECOMPUTED * max(1.0, 0.1 * steepest) + left_over_drift(steepest, len(host), largest)
    within = np.abs(found - own) <= np.expm1(drift) * own + ours.units.numpy()
    return f"{apart:.1e}", "yes" if within.all() else "NO"


def certificate_line(name: str, size: int, dimensions: int, device: str) -> list[str]:
    """Seconds of a certificate, and its epsilon."""
    space = random_space(size, dimensions, device)
    mechanism = mechanism_named(name, EPSILON, space)
    started = time.perf_counter()
    certificate = dp.certify(mechanism, space)
    taken = time.perf_counter() - started
    cuda = space.device.type == "cuda"
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.2f}" if cuda else "-"
    return [
        f"{size:,}",
        name,
        f"{taken:.1f}",
        f"{certificate.epsilon:.4f}",
        f"{size * size / taken:.2e}",
        memory,
    ]


def noise_line(name: str, space: dp.EmbeddingSpace) -> list[str]:
    """Tokens per second of a noise mechanism, and the rate of its product."""
    mechanism = mechanism_named(name, 30.0, space)
    drawing, ids = drawer(mechanism, space), np.resize(space.spread(len(space)), NOISY)
    drawing.draw([ids[:10]], os_entropy)
    started = time.perf_counter()
    drawing.draw([ids], os_entropy)
    taken = (time.perf_counter() - started) / len(ids)
    size, dimensions = space.vectors.shape
    return [name, f"{1 / taken:,.0f}", f"{2 * size * dimensions / taken / 1e9:,.0f}"]


def table(header: list[str], lines: list[list[str]]) -> None:
    """As Markdown."""
    print("\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for line in lines:
        print("| " + " | ".join(line) + " |", flush=True)


def main() -> None:
    """Print Markdown tables; certificates are computed, not read from disk."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DP_MIDDLEWARE_CACHE"] = cache
        measure()


def measure() -> None:
    """All tables."""
    channels = [n for n, kind in dp.MECHANISMS.items() if issubclass(kind, ChannelMechanism)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--size", type=int, default=11_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--certify", type=int, action="append", help="a vocabulary's size")
    parser.add_argument("--mechanism", choices=channels, action="append")
    options = parser.parse_args()
    space = random_space(options.size, options.dimensions, options.device)
    host = random_space(options.size, options.dimensions, "cpu")
    bounds = bandwidth(space.device), product_rate(space.device)
    card = torch.cuda.get_device_name() if space.device.type == "cuda" else "the CPU"
    print(f"{card}: copy {bounds[0] / 1e9:,.0f} GB/s, product {bounds[1] / 1e9:,.0f} GFLOP/s")
    print(f"V = {options.size:,}, d = {options.dimensions}, nominal {EPSILON:g}")
    header = ["mechanism", "rows/s, CPU", "rows/s, device", "ratio", "share of copy"]
    header += ["share of product", "ln P apart", "integers agree"]
    table(
        header,
        [
            row_line(mechanism_named(name, EPSILON, host), host, space, bounds)
            for name in options.mechanism or channels
        ],
    )
    table(
        ["noise", "tokens/s", "GFLOP/s"],
        [noise_line(name, space) for name in ("metric-noise", "dchi-stencil")],
    )
    table(
        ["V", "mechanism", "certify s", "exact epsilon", "pairs/s", "peak GB on the card"],
        [
            certificate_line(name, size, options.dimensions, options.device)
            for size in options.certify or [options.size]
            for name in CERTIFIED
        ],
    )


if __name__ == "__main__":
    main()
