"""Weighted means of vectors over a window of tokens, and what one token weighs in them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dp_middleware.embedding.arrays import Floats, Ids


def weights(window: int, sigma: float) -> tuple[Ids, Floats]:
    """Gives offsets o of the window and exp(-(o - c)^2 / (2 sigma^2)) relative to o = 0; both (L,).

    No weight is larger than the one at offset 0, which every position has: no mean is 0/0.
    """
    offsets = np.arange(window) - (window - 1) // 2
    twice_centre = 1 - window % 2
    beyond = offsets * (offsets - twice_centre)  # (o - c)^2 - c^2
    with np.errstate(over="ignore"):  # infinitely many widths away: weight 0
        return offsets, np.exp(-0.5 * (beyond / sigma / sigma))


def window_means(vectors: Floats, window: int, sigma: float) -> Floats:
    """Averages the rows about each row, weights renormalised at the ends; float64 (n, d)."""
    count = len(vectors)
    sums, totals = np.zeros_like(vectors), np.zeros((count, 1))
    for offset, weight in zip(*weights(window, sigma), strict=True):
        first, last = max(0, -offset), min(count, count - offset)
        if first < last:
            sums[first:last] += weight * vectors[first + offset : last + offset]
            totals[first:last] += weight
    means: Floats = sums / totals
    return means


def influences(length: int, window: int, sigma: float) -> Floats:
    """Computes C_j for each token of a text: the sum over positions of its weights, (n,)."""
    offsets, weight = weights(window, sigma)
    totals = np.convolve(np.ones(length), weight[::-1])[offsets[-1] :][:length]
    return np.convolve(1 / totals, weight)[-offsets[0] :][:length]


@lru_cache(maxsize=1024)
def largest_influence(window: int, sigma: float, length: int | None) -> float:
    """Computes the largest C_j of a text of this length, or of any.

    Lengths up to 2 L - 2 suffice. A position lacks offsets to the left only if it is among the
    first reach-left ones, to the right only if among the last reach-right, and both reaches sum to
    L - 1. So C_j differs from 1 because of the left end only where j <= L - 2, because of the right
    end only where j >= N - L + 1. From N = 2 L - 2 no token meets both, and each C_j depends on its
    distance from one end: the set of values is the same for all larger N. The mean of all C_j is 1,
    so the largest is at least 1.
    """
    if length is None:
        return max(largest_influence(window, sigma, n) for n in range(1, 2 * window))
    return max(1.0, float(influences(max(1, length), window, sigma).max()))
