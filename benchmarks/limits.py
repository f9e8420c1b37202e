"""Random vectors, and the limits of a device: its memory bandwidth and its rate of products."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import dp_middleware as dp

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
