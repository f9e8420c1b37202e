"""DYNTEXT's numbers: how crowded tokens are, the law of a list's length, and mixtures over it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace, on_host
from dp_middleware.errors import needs
from dp_middleware.mechanisms.kernels import lists

_STEEP = 300.0  # -ln sigma beyond which a normal tail would overflow


@dataclass(frozen=True, eq=False)
class Density:
    """Holds neighbourhoods with the noise on their densities.

    Attributes:
        listed: int64 (V, K), the K nearest tokens of each, itself first.
        distances: float64 (V, K), ascending.
        counts: int64 (V,), tokens within the mean distance of the K-th, itself counted: f.
        log_sigma: float64 (V,), ln of the standard deviation of the noise on f; -inf for none.
    """

    listed: Ids
    distances: Floats
    counts: Ids
    log_sigma: Floats

    def log_lengths(self) -> Floats:
        """Computes ln P(k_t = k) for k = 1 .. K with fresh noise per occurrence; float64 (V, K).

        k_t = floor((1 - F) K) clipped to 1 .. K, F = (f + noise - min f) / (max f - min f). Where
        all tokens are equally dense, F is 0 and k_t = K.
        """
        counts, log_sigma = self.counts, self.log_sigma
        everyone, size = np.arange(len(counts)), self.listed.shape[1]
        top, span = counts.max(), int(np.ptp(counts))
        fixed = np.full(len(counts), size) if span == 0 else (top - counts) * size // span
        lengths = np.full((len(counts), size), -np.inf)
        lengths[everyone, np.clip(fixed, 1, size) - 1] = 0.0
        noisy = np.flatnonzero(log_sigma > -np.inf)
        if size == 1 or not noisy.size:
            return lengths
        # k_t >= k if f + noise <= max f - k (max f - min f) / K
        edges = (top - counts[noisy])[:, None] - np.arange(2, size + 1) * span / size
        edges *= np.exp(np.minimum(-log_sigma[noisy], _STEEP))[:, None]
        infinite = np.full((len(noisy), 1), np.inf)
        lengths[noisy] = _log_normal(np.hstack([edges, -infinite]), np.hstack([infinite, edges]))
        return lengths

    def lengths(self, noise: Floats) -> Ids:
        """Computes k_t of a table of noisy densities, int64 (V,), from standard normal draws (V,).

        As above with F = (f' - min f') / (max f' - min f'), f' = f + sigma noise. Where all f' are
        equal, F is 0 and k_t = K.
        """
        size = self.listed.shape[1]
        unit = max(self.log_sigma.max(), 0.0)  # in which no sigma overflows
        noisy = self.counts * math.exp(-unit) + np.exp(self.log_sigma - unit) * noise
        span = np.ptp(noisy)
        if span == 0:
            return np.full(len(noisy), size)
        shares = (noisy.max() - noisy) * size / span
        shares[noisy == noisy.min()] = size  # which rounding may miss
        lengths: Ids = np.clip(shares, 1, size).astype(np.int64)
        return lengths


def table_noise(seed: int, count: int) -> Floats:
    """Gives a table's public draws from the standard normal law, float64 (count,).

    By inversion of PCG64's numbers, which no release of NumPy changes.
    """
    uniform = ((np.random.PCG64(seed).random_raw(count) >> np.uint64(11)) + 0.5) / 2**53
    return np.array([NormalDist().inv_cdf(u) for u in uniform.tolist()])


def device_density(
    space: EmbeddingSpace, size: int, epsilon_density: float, delta: float, seed: int | None
) -> tuple[torch.Tensor, ...]:
    """Gives lists, distances and ln of the law of a list's length on the device, (V, K) each.

    ``seed`` is that of the table of noisy densities; ``None``: noise is fresh per occurrence.
    """

    def compute() -> tuple[torch.Tensor, ...]:
        public = density(space, size, epsilon_density, delta)
        if seed is None:
            log_lengths = public.log_lengths()
        else:
            lengths = public.lengths(table_noise(seed, len(space)))
            log_lengths = np.full((len(space), size), -np.inf)
            log_lengths[np.arange(len(space)), lengths - 1] = 0.0
        return tuple(map(space.on_device, (public.listed, public.distances, log_lengths)))

    return space.derived(("dyntext-device", size, epsilon_density, delta, seed), compute)


def density(space: EmbeddingSpace, size: int, epsilon_density: float, delta: float) -> Density:
    """Computes densities once per space: two passes over all distances, O(V K) memory."""
    listed, distances, counts = space.derived(
        ("dyntext-lists", size), lambda: _neighbourhoods(space, size)
    )

    def compute() -> Density:
        decay = epsilon_density / (2 * np.log(2 / delta))
        spread = np.abs(counts[listed] - counts[:, None]).max(axis=1)  # LS
        with np.errstate(divide="ignore"):  # no spread, no noise
            log_spread = np.log(spread.astype(np.float64))
        log_smooth = (log_spread[listed] - decay * distances).max(axis=1)
        scale = np.log(2 * np.log(1.25 / delta)) / 2 - np.log(epsilon_density)
        return Density(listed, distances, counts, log_smooth + scale)

    return space.derived(("dyntext", size, epsilon_density, delta), compute)


def _neighbourhoods(space: EmbeddingSpace, size: int) -> tuple[Ids, Floats, Ids]:
    """What does not depend on the budget: lists, distances and counts."""
    everyone = np.arange(len(space))
    nearest, lengths = lists.nearest(everyone, space, size)
    listed, distances = nearest.cpu().numpy(), on_host(lengths)
    mean = math.fsum(distances[:, -1]) / len(space)  # the same on every machine
    radius = mean + space.resolution  # a distance equal to the mean but for the grid lies within
    counts = np.empty(len(space), dtype=np.int64)
    for start in range(0, len(space), space.block):
        block = everyone[start : start + space.block]
        counts[block] = (space.distance_rows(block) <= radius).sum(dim=1).cpu().numpy()
    return listed, distances, counts


def _log_normal(low: Floats, high: Floats) -> Floats:
    """ln of the standard normal mass between two edges, low < high, accurate in both tails."""
    with needs("models"):
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
    log_lengths: torch.Tensor, distances: torch.Tensor, epsilon: float, outside: float, others: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes ln P on the list, (n, K), and of each of the ``others``, (n, 1).

    ``outside`` is the score of what is beyond the first k of a list.
    """
    size = distances.shape[1]
    farthest = distances.where(distances > 0, 1.0)[:, :, None]  # of the first k; d = 0 before
    scores = -distances[:, None, :] / farthest  # less the token's own score of 1, the largest
    beyond = torch.ones(size, size, dtype=torch.bool, device=distances.device).triu_(1)
    scores.masked_fill_(beyond, outside - 1.0).mul_(0.5 * epsilon)
    beside = 0.5 * epsilon * (outside - 1.0)
    weights = log_lengths - (scores.exp().sum(dim=2) + others * math.exp(beside)).log()
    listed = _log_sum(weights[:, :, None] + scores)
    return listed, _log_sum(weights[:, :, None] + beside)


def _log_sum(terms: torch.Tensor) -> torch.Tensor:
    """ln of the sum of exponentials over the second axis; -inf for no mass."""
    top = terms.amax(dim=1)
    shift = top.where(top.isfinite(), 0.0)
    return shift + (terms - shift[:, None, :]).exp().sum(dim=1).log()
