"""DYNTEXT's numbers: how crowded tokens are, the law of a list's length, and mixtures over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_middleware.embedding.space import BLOCK, EmbeddingSpace
from dp_middleware.mechanisms import _lists
from dp_middleware.mechanisms.base import Floats, Ids

_EQUAL = 1 + 1e-9  # a distance equal to the radius, whose mean is rounded, lies within it
_STEEP = 300.0  # -ln sigma beyond which a normal tail would overflow


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """What does not depend on the budget.

    Attributes:
        listed: int64 (V, K), the K nearest tokens of each, itself first.
        distances: float64 (V, K), ascending.
        counts: int64 (V,), tokens within the mean distance of the K-th, itself counted: f.
        spread: int64 (V,), largest difference of f to a token of the list: LS.
    """

    listed: Ids
    distances: Floats
    counts: Ids
    spread: Ids


@dataclass(frozen=True, eq=False)
class Density:
    """Neighbourhoods with the noise on their densities.

    Attributes:
        near: Lists and densities.
        log_sigma: float64 (V,), ln of the standard deviation of the noise on f; -inf for none.
    """

    near: Neighbourhoods
    log_sigma: Floats

    def log_lengths(self, ids: Ids) -> Floats:
        """ln P(k_t = k) for k = 1 .. K; float64 (n, K).

        k_t = floor((1 - F) K) clipped to 1 .. K, F = (f + noise - min f) / (max f - min f). Where
        all tokens are equally dense, F is 0 and k_t = K.
        """
        size = self.near.listed.shape[1]
        top, counts = self.near.counts.max(), self.near.counts[ids]
        span = int(top - self.near.counts.min())
        log_sigma = self.log_sigma[ids]
        fixed = np.full(len(ids), size) if span == 0 else (top - counts) * size // span
        lengths = np.full((len(ids), size), -np.inf)
        lengths[np.arange(len(ids)), np.clip(fixed, 1, size) - 1] = 0.0
        noisy = np.flatnonzero(log_sigma > -np.inf)
        if size == 1 or not noisy.size:
            return lengths
        # k_t >= k if f + noise <= max f - k (max f - min f) / K
        edges = (top - counts[noisy])[:, None] - np.arange(2, size + 1) * span / size
        edges *= np.exp(np.minimum(-log_sigma[noisy], _STEEP))[:, None]
        infinite = np.full((len(noisy), 1), np.inf)
        lengths[noisy] = _log_normal(np.hstack([edges, -infinite]), np.hstack([infinite, edges]))
        return lengths


def density(space: EmbeddingSpace, size: int, epsilon_density: float, delta: float) -> Density:
    """Computed once per space: two passes over all distances, O(V K) memory."""
    near = space.derived(("dyntext-lists", size), lambda: _neighbourhoods(space, size))

    def compute() -> Density:
        decay = epsilon_density / (2 * np.log(2 / delta))
        with np.errstate(divide="ignore"):  # no spread, no noise
            log_spread = np.log(near.spread.astype(np.float64))
        log_smooth = (log_spread[near.listed] - decay * near.distances).max(axis=1)
        scale = np.log(2 * np.log(1.25 / delta)) / 2 - np.log(epsilon_density)
        return Density(near, log_smooth + scale)

    return space.derived(("dyntext", size, epsilon_density, delta), compute)


def _neighbourhoods(space: EmbeddingSpace, size: int) -> Neighbourhoods:
    everyone = np.arange(len(space))
    listed, distances = _lists.nearest(everyone, space, size)
    radius = float(distances[:, -1].mean()) * _EQUAL
    counts = np.empty(len(space), dtype=np.int64)
    for start in range(0, len(space), BLOCK):
        block = everyone[start : start + BLOCK]
        counts[block] = np.count_nonzero(space.distances(block) <= radius, axis=1)
    spread = np.abs(counts[listed] - counts[:, None]).max(axis=1)
    return Neighbourhoods(listed, distances, counts, spread)


def _log_normal(low: Floats, high: Floats) -> Floats:
    """ln of the standard normal mass between two edges, low < high, accurate in both tails."""
    from scipy.special import erf, log_ndtr

    upper = low + high > 0  # by symmetry: measure in the lower tail, where digits are kept
    low, high = np.where(upper, -high, low), np.where(upper, -low, high)
    with np.errstate(divide="ignore"):  # of two formulas one may have no digits: the other counts
        middle = np.log(0.5 * (erf(high / np.sqrt(2)) - erf(low / np.sqrt(2))))
        below = log_ndtr(high)
        tail = below + np.log1p(-np.exp(log_ndtr(low) - below))
    mass: Floats = np.where(np.maximum(np.abs(low), np.abs(high)) < 1, middle, tail)
    return mass


def mixture(
    log_lengths: Floats, distances: Floats, epsilon: float, outside: float, others: int
) -> tuple[Floats, Floats]:
    """ln of the probabilities on the list, (n, K), and of each of the ``others``, (n, 1).

    ``outside`` is the score of what is beyond the first k of a list.
    """
    size = distances.shape[1]
    farthest = np.where(distances > 0, distances, 1.0)[:, :, None]  # of the first k; d = 0 before
    scores = -distances[:, None, :] / farthest  # less the token's own score of 1, the largest
    scores[:, ~np.tri(size, dtype=bool)] = outside - 1.0
    scores *= 0.5 * epsilon
    beyond = 0.5 * epsilon * (outside - 1.0)
    weights = log_lengths - np.log(np.exp(scores).sum(axis=2) + others * np.exp(beyond))
    listed = _log_sum(weights[:, :, None] + scores)
    return listed, _log_sum(weights[:, :, None] + beyond)


def _log_sum(terms: Floats) -> Floats:
    """ln of the sum of exponentials over the second axis; -inf for no mass."""
    top = terms.max(axis=1)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Floats = shift + np.log(np.exp(terms - shift[:, None, :]).sum(axis=1))
    return total
