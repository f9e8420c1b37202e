"""Exact composition: the distribution of the privacy loss, convolved through ``dp_accounting``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dp_middleware import _validate
from dp_middleware.errors import IncompatibleGuarantees, ParameterError, library
from dp_middleware.privacy.guarantee import ApproxDP

RESOLUTION = 1e-4  # nats: losses are rounded up to a multiple of it
_ROUNDING = 1e-12  # per release: of logarithms, and of the transforms that convolve
_MASS_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class LossDistribution:
    """Holds the distribution of ln P(y) - ln Q(y) for y ~ P, and the reverse.

    P and Q are the laws of what two adjacent inputs release. Build one with :meth:`of_rows` or
    :meth:`of_epsilon`.

    Guarantee:
        Losses are rounded up, a tail that is cut off counts as infinite, and a reserve of 1e-12 per
        release covers floating point: delta is never understated. Holds for later, also adaptive
        releases (Zhu, Dong and Wang, 2022, Theorem 10), if their parameters are fixed in advance.

    Attributes:
        releases: How many were composed.
        largest: Largest loss, nats; may be ``inf``.
        resolution: Nats.
    """

    releases: int
    largest: float
    resolution: float
    _distribution: Any = field(repr=False, compare=False)

    @classmethod
    def of_rows(
        cls, log_p: Sequence[float], log_q: Sequence[float], *, resolution: float = RESOLUTION
    ) -> LossDistribution:
        """Returns the one of a pair of tokens, from rows ln P(y) of length V; of no other pair."""
        _validate.positive(resolution=resolution)
        p, q = _row(log_p), _row(log_q)
        if len(p) != len(q):
            raise ParameterError(f"expected rows of equal length, got {len(p)} and {len(q)}")
        module = library("dp_accounting.pld", "accounting").privacy_loss_distribution
        distribution = module.from_two_probability_mass_functions(
            log_probability_mass_function_lower=q,
            log_probability_mass_function_upper=p,
            value_discretization_interval=resolution,
            symmetric=False,
        )
        largest = max(abs(p[y] - q[y]) for y in p if max(p[y], q[y]) > -math.inf)
        return cls(releases=1, largest=largest, resolution=resolution, _distribution=distribution)

    @classmethod
    def of_epsilon(cls, epsilon: float, *, resolution: float = RESOLUTION) -> LossDistribution:
        """Returns the one of randomised response, of which all of this epsilon is post-processing.

        So it dominates every adjacent pair (Kairouz, Oh and Viswanath, 2015, Theorem 3.2).
        """
        _validate.positive(epsilon=epsilon)
        row = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
        return cls.of_rows(row, row[::-1], resolution=resolution)

    def times(self, count: int) -> LossDistribution:
        """Returns the distribution for ``count`` releases of the same text."""
        _validate.at_least(1, count=count)
        composed = self._distribution.self_compose(int(count))
        releases, largest = self.releases * count, self.largest * count
        return replace(self, releases=releases, largest=largest, _distribution=composed)

    def then(self, other: LossDistribution) -> LossDistribution:
        """Composes both releases; IncompatibleGuarantees: their resolutions differ."""
        if other.resolution != self.resolution:
            both = f"{self.resolution} and {other.resolution}"
            raise IncompatibleGuarantees(f"expected one resolution, got {both}")
        composed = self._distribution.compose(other._distribution)
        releases, largest = self.releases + other.releases, self.largest + other.largest
        return replace(self, releases=releases, largest=largest, _distribution=composed)

    def delta(self, epsilon: float) -> float:
        """Returns a delta such that the releases together are (epsilon, delta)-DP."""
        _validate.nonnegative(epsilon=epsilon)
        if epsilon >= self.largest * (1 + _ROUNDING):
            return 0.0
        reserve = _ROUNDING * self.releases
        delta = float(self._distribution.get_delta_for_epsilon(max(0.0, epsilon - reserve)))
        return min(1.0, max(0.0, delta) + reserve)

    def guarantee(self, delta: float) -> ApproxDP:
        """Returns the smallest epsilon at a delta; never above the sum of the largest losses."""
        _validate.probability(delta=delta)
        epsilon, reserve = math.inf, _ROUNDING * self.releases
        if delta > reserve:
            rest = delta - reserve
            epsilon = float(self._distribution.get_epsilon_for_delta(rest)) + reserve
        return ApproxDP(epsilon=min(epsilon, self.largest * (1 + _ROUNDING)), delta=delta)


def _row(values: Sequence[float]) -> dict[int, float]:
    row = {number: float(value) for number, value in enumerate(values)}
    mass = math.fsum(math.exp(value) for value in row.values())
    if not abs(mass - 1) <= _MASS_TOLERANCE:
        raise ParameterError(f"expected ln P(y) of all outputs y, of mass 1, got mass {mass:.6g}")
    return row
