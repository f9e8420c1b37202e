"""STENCIL and its repair: means of vectors over a window, without and with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import LATER
from dp_middleware.mechanisms.kernels import noise
from dp_middleware.mechanisms.kernels.nearest import NEARNESSES, Nearness, nearest, release
from dp_middleware.mechanisms.text_mechanisms import NoiseMechanism
from dp_middleware.sampling.sampler import Entropy


def weights(window: int, sigma: float) -> tuple[Ids, Floats]:
    """Gives offsets o and exp(-(o - c)^2 / (2 sigma^2)) over that of o = 0; both (L,)."""
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
    return np.asarray(sums / totals)


def influences(length: int, window: int, sigma: float) -> Floats:
    """Computes C_j for each token of a text: the sum over positions of its weights, (n,)."""
    offsets, weight = weights(window, sigma)
    totals = np.convolve(np.ones(length), weight[::-1])[offsets[-1] :][:length]
    return np.convolve(1 / totals, weight)[-offsets[0] :][:length]


@lru_cache(maxsize=1024)
def largest_influence(window: int, sigma: float, length: int | None) -> float:
    """Computes the largest C_j of a text of this length, or of any: 2 L - 2 and less suffice."""
    if length is None:
        return max(largest_influence(window, sigma, n) for n in range(1, 2 * window))
    return max(1.0, float(influences(max(1, length), window, sigma).max()))


@dataclass(frozen=True, kw_only=True)
class _Windowed(NoiseMechanism):
    """Shared by the two: means over a window of length L, and width sigma of its weights."""

    window: int = field(default=5, metadata=_validate.COUNT)
    sigma: float
    nearness: Nearness = field(default="distance", metadata=LATER | _validate.choice(*NEARNESSES))

    def perturb(self, ids: ArrayLike, space: EmbeddingSpace, entropy: Entropy) -> Ids:
        """Draws released ids, int64 (n,); each depends on the ids of its window."""
        numbers = space.checked(ids)
        return self.perturb_among(numbers, np.ones(len(numbers), dtype=bool), space, entropy)


@dataclass(frozen=True, kw_only=True)
class Stencil(_Windowed):
    """Releases the token nearest to the weighted mean of the vectors around, never x itself.

    Weights exp(-(o - c)^2 / (2 sigma^2)) by the offset o, over the offsets that the text has:
    -(L-1)/2 .. (L-1)/2 and c = 0 for odd L, else -L/2+1 .. L/2 and c = 1/2. A token with the same
    vector as x is another one. Windows lie over public tokens too.

    Reference:
        Harel, Gilboa and Pinter, STENCIL. The printed weights use the absolute position.

    Guarantee:
        None. The released tokens are a function of the text.

    Attributes:
        window: Length L of the window, tokens.
        sigma: Width of the weights, tokens. Positive.
        nearness: By Euclidean ``"distance"``, or by ``"cosine"`` as in all that the paper measures.
    """

    name = "stencil"
    claim = "none"
    truth = "nothing: no noise"
    scale = None
    references = ("stencil",)
    claimed_epsilon = math.inf  # no noise is added

    sigma: float = field(default=1.25, metadata=_validate.POSITIVE)

    def perturb_among(
        self, ids: Ids, fresh: NDArray[np.bool_], space: EmbeddingSpace, entropy: Entropy
    ) -> Ids:
        """Does the same for some tokens; windows lie over all of them."""
        if len(space) == 1:
            raise ParameterError("expected a space of two tokens or more, got one: x is left out")
        means = window_means(space.points[ids], self.window, self.sigma)
        return nearest(space, means[fresh], ids[fresh], self.nearness)

    def lipschitz(self, length: int | None) -> float:
        """Returns infinity."""
        return math.inf


@dataclass(frozen=True, kw_only=True)
class DChiStencil(_Windowed):
    """Releases the token nearest to the window's mean plus noise of density exp(-eta ||z||).

    The mean of :class:`Stencil`. x itself may be released: left out, the loss would be infinite.

    Reference:
        Harel, Gilboa and Pinter, d_chi-STENCIL and its Theorem 1.

    Guarantee:
        eta C_j * d metric DP for token j of a text, C_j the sum of its weights over all positions.
        The paper's 2 eta d_2 is true and loose; its bound in cosine distance, chord^2 / 2, is
        false.

    Attributes:
        eta: Nats per unit of distance that a mean moves. Positive.
        window: Length L of the window, tokens.
        sigma: Width of the weights, tokens. Positive. 0.75 in its study, STENCIL's is 1.25.
        nearness: As for :class:`MetricNoise`.
    """

    name = "dchi-stencil"
    claim = "2 eta d(x, x')"
    truth = "eta C_j d(x, x') metric DP, d Euclidean; the cosine claim is false"
    scale = "eta"
    references = ("stencil", "chatzikokolakis2013")
    claimed_epsilon = property(lambda self: 2 * self.eta)

    eta: float = field(metadata=noise.ETA)
    sigma: float = field(default=0.75, metadata=_validate.POSITIVE)

    def perturb_among(
        self, ids: Ids, fresh: NDArray[np.bool_], space: EmbeddingSpace, entropy: Entropy
    ) -> Ids:
        """Does the same for some tokens; windows lie over all of them."""
        means = window_means(space.points[ids], self.window, self.sigma)
        return release(means[fresh], space, self.eta, entropy, self.nearness)

    def lipschitz(self, length: int | None) -> float:
        """Multiplies eta by the largest C_j of a text of this length, public tokens counted."""
        if length is not None:
            _validate.at_least(0, length=length)
        return self.eta * largest_influence(self.window, self.sigma, length) * (1 + 1e-12)

    def float_distance(self, space: EmbeddingSpace, length: int | None) -> float:
        """Bounds the total variation that floating point adds where a token moves something."""
        moved = self.window if length is None else min(self.window, length)
        return min(1.0, moved * noise.space_distance(space, self.eta, self.window))

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says what floating point costs."""
        return (noise.floating_point(space, self.eta, self.window),)
