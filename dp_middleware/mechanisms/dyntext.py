"""DYNTEXT: a candidate list as long as the token's noisy density says, and its repair."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Literal, NamedTuple, Self

import numpy as np

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids, slices
from dp_middleware.embedding.space import EmbeddingSpace, on_host, once
from dp_middleware.errors import needs
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.mechanisms.kernels import lists

Reading = Literal["table", "fresh"]

_STEEP = 300.0  # -ln sigma beyond which a normal tail would overflow
_CELLS = 1 << 20  # (rows, K, K) numbers at a time


class Density(NamedTuple):
    """Holds neighbourhoods with the noise on their densities.

    ``listed`` int64 (V, K) are the K nearest tokens of each, itself first, at ``distances``;
    ``counts`` int64 (V,), f, those within the mean distance of the K-th; ``log_sigma`` (V,) is of
    the noise on f.
    """

    listed: Ids
    distances: Floats
    counts: Ids
    log_sigma: Floats

    def log_lengths(self) -> Floats:
        """Computes ln P(k_t = k), k = 1 .. K, F = (f + noise - min f) / (max f - min f); (V, K)."""
        counts, log_sigma, size = self.counts, self.log_sigma, self.listed.shape[1]
        top, span = counts.max(), int(np.ptp(counts))
        fixed = np.full(len(counts), size) if span == 0 else (top - counts) * size // span
        lengths = _certain(np.clip(fixed, 1, size), size)
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
        """Computes k_t of a table of noisy densities, int64 (V,), from normal draws (V,)."""
        size = self.listed.shape[1]
        unit = max(self.log_sigma.max(), 0.0)  # in which no sigma overflows
        noisy = self.counts * math.exp(-unit) + np.exp(self.log_sigma - unit) * noise
        span = np.ptp(noisy)
        if span == 0:
            return np.full(len(noisy), size)
        shares = (noisy.max() - noisy) * size / span
        shares[noisy == noisy.min()] = size  # which rounding may miss
        return np.asarray(np.clip(shares, 1, size), dtype=np.int64)


def _certain(lengths: Ids, size: int) -> Floats:
    """Laws of lengths that are what they are; ln P, (n, size)."""
    logs = np.full((len(lengths), size), -np.inf)
    logs[np.arange(len(lengths)), lengths - 1] = 0.0
    return logs


def table_noise(seed: int, count: int) -> Floats:
    """Gives a table's standard normal numbers, (count,), of PCG64's, which NumPy never changes."""
    uniform = ((np.random.PCG64(seed).random_raw(count) >> np.uint64(11)) + 0.5) / 2**53
    return np.array([NormalDist().inv_cdf(u) for u in uniform.tolist()])


@once
def device_density(
    space: EmbeddingSpace, size: int, epsilon_density: float, delta: float, seed: int | None
) -> tuple[torch.Tensor, ...]:
    """Gives lists, distances and ln P of a list's length, (V, K); ``seed`` None: fresh noise."""
    public = density(space, size, epsilon_density, delta)
    if seed is None:
        log_lengths = public.log_lengths()
    else:
        log_lengths = _certain(public.lengths(table_noise(seed, len(space))), size)
    return tuple(map(space.on_device, (public.listed, public.distances, log_lengths)))


def density(space: EmbeddingSpace, size: int, epsilon_density: float, delta: float) -> Density:
    """Computes densities: two passes over all distances once per space, O(V K) memory."""
    listed, distances, counts = _neighbourhoods(space, size)
    decay = epsilon_density / (2 * np.log(2 / delta))
    spread = np.abs(counts[listed] - counts[:, None]).max(axis=1)  # LS
    with np.errstate(divide="ignore"):  # no spread, no noise
        log_spread = np.log(spread.astype(np.float64))
    log_smooth = (log_spread[listed] - decay * distances).max(axis=1)
    scale = np.log(2 * np.log(1.25 / delta)) / 2 - np.log(epsilon_density)
    return Density(listed, distances, counts, log_smooth + scale)


@once
def _neighbourhoods(space: EmbeddingSpace, size: int) -> tuple[Ids, Floats, Ids]:
    """What does not depend on the budget: lists, distances and counts."""
    everyone = np.arange(len(space))
    nearest, lengths = lists.nearest(everyone, space, size)
    listed, distances = nearest.cpu().numpy(), on_host(lengths)
    mean = math.fsum(distances[:, -1]) / len(space)  # the same on every machine
    radius = mean + space.resolution  # a distance equal to the mean but for the grid lies within
    counts = np.empty(len(space), dtype=np.int64)
    for part in slices(len(space), space.block):
        near = space.distance_rows(everyone[part]) <= radius
        counts[part] = near.sum(dim=1).cpu().numpy()
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
    return np.asarray(np.where(np.maximum(np.abs(low), np.abs(high)) < 1, middle, tail))


def mixture(
    log_lengths: torch.Tensor, distances: torch.Tensor, epsilon: float, outside: float, others: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes ln P on the list, (n, K), and of each of the others, (n, 1), scored ``outside``."""
    size = distances.shape[1]
    farthest = distances.where(distances > 0, 1.0)[:, :, None]  # of the first k; d = 0 before
    scores = -distances[:, None, :] / farthest  # less the token's own score of 1, the largest
    beyond = torch.ones(size, size, dtype=torch.bool, device=distances.device).triu_(1)
    scores.masked_fill_(beyond, outside - 1.0).mul_(0.5 * epsilon)
    beside = 0.5 * epsilon * (outside - 1.0)
    weights = log_lengths - (scores.exp().sum(dim=2) + others * math.exp(beside)).log()
    listed = torch.logsumexp(weights[:, :, None] + scores, dim=1)
    return listed, torch.logsumexp(weights[:, :, None] + beside, dim=1)


@dataclass(frozen=True, kw_only=True)
class DynText(ChannelMechanism):
    """Releases one of the k nearest tokens, k from the token's noisy density.

    f(t) counts the tokens within gamma, the mean distance of the K-th nearest (the token itself is
    the first). Gaussian noise of the "smooth" scale S(t) sqrt(2 ln(1.25/delta)) / epsilon_density
    is added, S(t) = max over the K-list of LS(s) exp(-beta d), LS the largest difference of f over
    a K-list, beta = epsilon_density / (2 ln(2/delta)). Min-max normalised over the vocabulary this
    is F, and k = floor((1 - F) K) clipped to 1 .. K. Scores on the list are 1 - d/d_max (1 where
    d_max = 0).

    Reference:
        Zhang et al. (2025), Findings of ACL (DYNTEXT).

    Guarantee:
        None: lists differ, so the loss is infinite. The density noise hides public numbers.

    Attributes:
        epsilon: Nats per token of the replacement (the paper's epsilon_r). Positive.
        epsilon_density: Nats of the density noise. Positive. By default 0.5 of a total epsilon, at
            most half, as in the authors' program; the nominal epsilon is the total.
        delta: Of the density noise, between 0 and 1.
        candidates: Largest length K of a list, the token itself included; at most V.
        reading: ``"table"`` is the paper: one noisy f for every token, F normalised by the extremes
            of these (Eq. 6), so k is a public function of the token. ``"fresh"`` is ours, one draw
            per occurrence, normalised by the extremes of f itself: a row is a sum over k.
        table_seed: Of the table of noisy densities; public, at least 0. Not used if fresh.
    """

    name = "dyntext"
    claim = "(epsilon_density + epsilon)-DP"
    truth = "nothing: lists of different tokens differ"
    references = ("dyntext2025",)
    full_support = False
    outside = -np.inf

    epsilon_density: float = field(default=0.5, metadata=_validate.POSITIVE)
    delta: float = field(default=1e-5, metadata=_validate.PROBABILITY)
    candidates: int = field(default=20, metadata=_validate.COUNT)
    reading: Reading = field(default="table", metadata=_validate.choice("table", "fresh"))
    table_seed: int = field(default=0, metadata=_validate.count(0))

    @classmethod
    def with_defaults(cls, nominal: float, space: EmbeddingSpace) -> Self:
        """Splits a total epsilon: 0.5 for the density, at most half, the rest for releases."""
        return cls(epsilon=nominal).at(nominal)

    @property
    def nominal(self) -> float:
        """Returns the paper's sum of both steps, nats per token."""
        return self.epsilon + self.epsilon_density

    def at(self, nominal: float) -> Self:
        """Sets another total: the density keeps its own part, or has half of it."""
        density = min(self.epsilon_density, nominal / 2)
        return replace(self, epsilon=nominal - density, epsilon_density=density)

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        size = min(self.candidates, len(space))
        seed = self.table_seed if self.reading == "table" else None
        density = device_density(space, size, self.epsilon_density, self.delta, seed)
        numbers, others = space.on_device(ids), len(space) - size
        rows = torch.empty(len(ids), len(space), dtype=torch.float64, device=space.device)
        step = max(1, _CELLS // size**2)
        for part, block in zip(torch.split(numbers, step), torch.split(rows, step), strict=True):
            listed, distances, lengths = (table[part] for table in density)
            inside, beside = mixture(lengths, distances, self.epsilon, self.outside, others)
            block.copy_(beside.expand_as(block)).scatter_(1, listed, inside)
        return rows


@dataclass(frozen=True, kw_only=True)
class DynTextStrict(DynText):
    """Repairs DynText: tokens off the list have score 0 instead of probability 0.

    Reference:
        This library; zero-extension of Zhang et al. (2025). Attributes are those repaired.

    Guarantee:
        epsilon-DP per token, whatever the law of the length: all inputs share the output set V and
        scores lie in [0, 1]. The density noise costs nothing: ``epsilon`` is the nominal one.
    """

    name = "dyntext-strict"
    claim = "epsilon-DP"
    truth = "epsilon-DP (our repair); the density noise costs nothing"
    full_support = True
    outside = 0.0
    nominal, at = ChannelMechanism.nominal, ChannelMechanism.at
