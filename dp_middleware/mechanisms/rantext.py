"""RANTEXT: a candidate list of random radius around the token, and its repair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware._torch import torch
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.embedding.space import EmbeddingSpace
from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import ChannelMechanism
from dp_middleware.mechanisms.kernels.marginal import Curves, RadiusGrid
from dp_middleware.mechanisms.kernels.radius import SMALL, RadiusLaw, RadiusQuadrature, radius_law

JUMP = 38.1294 / 19.0648  # nominal epsilon at which the paper's noise jumps from 2 to about 9
# by epsilon the probability of a list of 5 % of the vocabulary, which App. B fits Eq. 15 to
PRINTED_CHANCES = {2.0: 0.015, 6.0: 0.09, 10.0: 0.1, 14.0: 0.105}

_LARGEST_NOISE_EPSILON = 10.0  # the rule stays below this for every epsilon under 1e17


def noise_epsilon(epsilon: float) -> float:
    """Computes the epsilon of the radius noise (InferDPT v5, Eq. 15), fitted to one word."""
    argument = 19.0648 * epsilon - 38.1294
    if argument <= 0:
        return epsilon
    fitted = 0.0165 * np.log(argument) + 9.3111
    return float(fitted if epsilon > 2.5 else max(epsilon, fitted))


@dataclass(frozen=True, kw_only=True)
class RanText(ChannelMechanism):
    """Draws a radius r, then releases a token nearer than r with score 1 - d/r.

    r = ||Y||, Y_i Laplace with scale noise_range[i] / noise_epsilon(epsilon). The radius does not
    depend on the token, so the row is an integral over r, up to errors stated in
    docs/mechanisms.md: the integers drawn from are those certified.

    Reference:
        Tong et al. (2023), InferDPT, v5: Eqs. 14 to 16, and 29 to 34 of its appendix.

    Guarantee:
        Not the epsilon-DP that Theorems 3 and 4 claim: a far token is reached only through the tail
        of r. The exact loss is finite, and tens of nats for epsilon above 2.

    Attributes:
        epsilon: Nats per token, as the paper counts them. Positive.
        noise_range: Per-dimension ranges delta_phi, length d, undefined in the paper. Default: max
            - min of each coordinate over the vocabulary, as its program does.
    """

    name = "rantext"
    truth = "finite, but tens of nats above epsilon 2"
    references = ("inferdpt2023",)
    literal = True
    jumps = (JUMP,)
    largest = 1e3

    epsilon: float
    noise_range: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_range is not None:
            ranges = np.asarray(self.noise_range, dtype=np.float64)
            usable = np.isfinite(ranges).all() and (ranges >= 0).all() and ranges.any()
            if ranges.ndim != 1 or not usable:
                raise ParameterError("expected noise_range as finite numbers >= 0, not all zero")
            object.__setattr__(self, "noise_range", tuple(ranges.tolist()))

    @classmethod
    def with_list_size(cls, space: EmbeddingSpace, *, epsilon: float, size: float) -> Self:
        """Finds the mechanism whose mean candidate list has about ``size`` tokens here.

        Below 1 ``size`` is a share of V. Scales the default ranges by one public factor; the mean
        is over 512 tokens. Calibrating keeps ranges, not list sizes. ParameterError: ``size`` is
        neither a share nor between 2 and V - 1.
        """
        if 0 < size < 1:
            size = min(max(2, round(size * len(space))), len(space) - 1)
        if not 2 <= size < len(space):
            raise ParameterError(f"expected 2 <= size < V = {len(space)}, got size={size}")
        plain, tokens, low, high = cls(epsilon=epsilon), space.spread(512), 1e-6, 1e6
        radii = _radius_sample(_law(plain, space)) / noise_epsilon(epsilon)
        distances = np.sort(space.distances(tokens), axis=None)
        for _ in range(60):
            factor = np.sqrt(low * high)
            reached = np.searchsorted(distances, factor * radii).mean() / len(tokens)
            low, high = (factor, high) if reached < size else (low, factor)
        return plain._scaled(space, np.sqrt(low * high))

    @classmethod
    def with_list_share(
        cls,
        space: EmbeddingSpace,
        *,
        epsilon: float,
        share: float = 0.05,
        chance: float | None = None,
    ) -> Self:
        """Finds the mechanism whose lists have this share of V with this probability (App. B).

        Of two factors the larger; where none reaches ``chance``, default :data:`PRINTED_CHANCES`
        with straight lines between, the nearest. See :meth:`list_chances`.
        """
        if chance is None:
            chance = float(np.interp(epsilon, [*PRINTED_CHANCES], [*PRINTED_CHANCES.values()]))
        _validate.probability(chance=chance)
        plain, factors = cls(epsilon=epsilon), np.geomspace(1e-6, 1e6, 4096)
        chances = plain.list_chances(space, share, factors)
        last = np.flatnonzero(chances >= min(chance, chances.max()))[-1]
        between = slice(last, last + 2)
        return plain._scaled(space, np.interp(-chance, -chances[between], factors[between]))

    def list_chances(
        self, space: EmbeddingSpace, share: float = 0.05, factors: ArrayLike = 1.0
    ) -> Floats:
        """Computes how likely a list has this share of V, within a tenth, for each of k factors."""
        _validate.probability(share=share)
        size, law = len(space), _law(self, space)
        low = min(max(1, round(0.9 * share * size)), size)
        high = min(max(low + 1, round(1.1 * share * size) + 1), size + 1)
        distances = np.sort(space.distances(space.spread(512)), axis=1)
        ends = np.pad(distances, ((0, 0), (0, 1)), constant_values=np.inf)[:, [low - 1, high - 1]].T
        below = np.concatenate([[0.0], np.cumsum(np.exp(law.log_masses(law.grid)[0]))])
        radii = ends * noise_epsilon(self.epsilon) / np.reshape(factors, (-1, 1, 1))
        shares = np.interp(radii, law.grid, below / below[-1])
        return np.asarray((shares[:, 1] - shares[:, 0]).mean(axis=1))

    def _scaled(self, space: EmbeddingSpace, factor: float) -> Self:
        return replace(self, noise_range=(_ranges(None, space) * factor).tolist())

    def log_rows(self, ids: Ids, space: EmbeddingSpace) -> torch.Tensor:
        """Computes the law of the token released for ids[i]; float64 (n, V)."""
        return self.rows_and_curves(ids, space)[0]

    def rows_and_curves(
        self, ids: Ids, space: EmbeddingSpace
    ) -> tuple[torch.Tensor, Curves | None]:
        """Computes rows, and what they are functions of on spaces that are not small."""
        rows = space.distance_rows(ids)
        return rows, _marginal(self, space, space.device).to_log_probs(rows)

    def assumptions(self, space: EmbeddingSpace) -> tuple[str, ...]:
        """Says where the parameter stands against the jump of the noise rule."""
        note = (
            f"epsilon={self.epsilon:.7g} lies just below {JUMP:.7g}, where the paper's noise "
            "rule jumps from 2 to about 9 and the loss with it"
        )
        return (note,) if 0 <= JUMP - self.epsilon < 1e-6 else ()


@dataclass(frozen=True, kw_only=True)
class RanTextStrict(RanText):
    """Repairs RanText: the score is max(0, 1 - d/r) over all tokens.

    Reference:
        This library; zero-extension of Tong et al. (2023). Attributes are those repaired.

    Guarantee:
        epsilon-DP per token for every radius, and so for the mixture over the radius.
    """

    name = "rantext-strict"
    truth = "epsilon-DP (our repair)"
    literal = False


def _ranges(noise_range: tuple[float, ...] | None, space: EmbeddingSpace) -> Floats:
    if noise_range is None:
        ranges = np.ptp(space.vectors, axis=0)
        return ranges if ranges.any() else np.ones_like(ranges)  # all vectors equal
    if len(noise_range) != (width := space.vectors.shape[1]):
        raise ParameterError(f"expected noise_range of length {width}, got {len(noise_range)}")
    return np.asarray(noise_range)


def _radius_sample(law: RadiusLaw) -> Floats:
    """Radii at 256 equally likely levels."""
    levels = (np.arange(256) + 0.5) / 256
    return np.interp(levels, np.cumsum(np.exp(law.log_masses(law.grid)[0])), law.grid[1:])


def _law(mechanism: RanText, space: EmbeddingSpace) -> RadiusLaw:
    """Law of the radius for noise epsilon 1; for noise epsilon e the radius is 1/e of it."""
    key = ("radius-law", mechanism.noise_range)
    ranges = _ranges(mechanism.noise_range, space)
    return space.derived(key, lambda: radius_law(ranges, _LARGEST_NOISE_EPSILON * _reach(space)))


def _reach(space: EmbeddingSpace) -> float:
    """An upper bound on every distance that needs no pass over pairs."""
    return max(2.0 * space.radius * (1 + 1e-9), 1e-6)


@lru_cache(maxsize=4)
def _marginal(
    mechanism: RanText, space: EmbeddingSpace, device: torch.device
) -> RadiusQuadrature | RadiusGrid:
    assert device == space.device  # equal spaces may be on different ones
    kind = RadiusQuadrature if len(space) <= SMALL else partial(RadiusGrid, space=space)
    return kind(
        _law(mechanism, space),
        noise_scale=noise_epsilon(mechanism.epsilon),
        reach=_reach(space),
        epsilon=mechanism.epsilon,
        literal=mechanism.literal,
    )
