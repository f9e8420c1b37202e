"""Exact composition: the distribution of the privacy loss, convolved through ``dp_accounting``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dp_middleware import _validate
from dp_middleware.errors import IncompatibleGuarantees, ParameterError, library
from dp_middleware.privacy.guarantee import ApproxDP

RESOLUTION = 1e-4
"""Nats. Losses are rounded up to a multiple of it, so each release costs at most this too much."""

_ROUNDING = 1e-12  # per release: of logarithms, and of the transforms that convolve
_MASS_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class LossDistribution:
    """The distribution of ln P(y) - ln Q(y) for y ~ P, and the reverse.

    P and Q are the laws of what two adjacent inputs release. Build one with :meth:`of_rows` or
    :meth:`of_curve`.

    Guarantee:
        Losses are rounded up, and a tail that is cut off counts as infinite, so delta is never
        understated; a reserve of 1e-12 per release covers floating point. Holds for later releases
        too, also adaptive ones (Zhu, Dong and Wang, 2022, Theorem 10), if their parameters are
        fixed in advance.

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
        """The distribution for one pair of tokens; it says nothing of other pairs.

        Args:
            log_p: Row of a token, ln P(y); length V, ``-inf`` where impossible.
            log_q: Row of the other token.
            resolution: Nats.
        """
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
        gaps = [abs(p[y] - q[y]) for y in p if max(p[y], q[y]) > -math.inf]
        return cls(releases=1, largest=max(gaps), resolution=resolution, _distribution=distribution)

    @classmethod
    def of_curve(
        cls,
        epsilons: Sequence[float],
        deltas: Sequence[float],
        *,
        resolution: float = RESOLUTION,
    ) -> LossDistribution:
        """A distribution that dominates all adjacent pairs, from the deltas of ``delta_curve``.

        Guarantee:
            The true curve is convex in e^epsilon, so the lower convex hull of the given points is
            above it; symmetric adjacency gives delta(-eps) = 1 - e^-eps (1 - delta(eps)).
            Connecting the dots yields a pair whose curve is the hull: it dominates every adjacent
            pair (Doroshenko et al., 2022).

        Args:
            epsilons: Nats, at least 0; more points give a tighter bound.
            deltas: One for each epsilon; it holds for all adjacent pairs.
            resolution: Nats.
        """
        _validate.positive(resolution=resolution)
        curve = _add_negative(_by_step(epsilons, deltas, resolution), resolution)
        steps, heights = _hull(curve, resolution)
        accounting = library("dp_accounting.pld", "accounting")
        masses = accounting.pld_pmf.create_pmf_pessimistic_connect_dots(resolution, steps, heights)
        distribution = accounting.privacy_loss_distribution.PrivacyLossDistribution(masses)
        largest = steps[-1] * resolution if heights[-1] == 0 else math.inf
        return cls(releases=1, largest=largest, resolution=resolution, _distribution=distribution)

    def times(self, count: int) -> LossDistribution:
        """The distribution for ``count`` releases of the same text."""
        _validate.at_least(1, count=count)
        return LossDistribution(
            releases=self.releases * count,
            largest=self.largest * count,
            resolution=self.resolution,
            _distribution=self._distribution.self_compose(int(count)),
        )

    def then(self, other: LossDistribution) -> LossDistribution:
        """The distribution for both releases together.

        Raises:
            IncompatibleGuarantees: Their resolutions differ.
        """
        if other.resolution != self.resolution:
            raise IncompatibleGuarantees(
                f"expected one resolution, got {self.resolution} and {other.resolution}"
            )
        return LossDistribution(
            releases=self.releases + other.releases,
            largest=self.largest + other.largest,
            resolution=self.resolution,
            _distribution=self._distribution.compose(other._distribution),
        )

    def delta(self, epsilon: float) -> float:
        """A delta such that the releases together are (epsilon, delta)-DP."""
        _validate.nonnegative(epsilon=epsilon)
        if epsilon >= self.largest * (1 + _ROUNDING):
            return 0.0
        shifted = max(0.0, epsilon - self._reserve)
        delta = float(self._distribution.get_delta_for_epsilon(shifted))
        return min(1.0, max(0.0, delta) + self._reserve)

    def guarantee(self, delta: float) -> ApproxDP:
        """The smallest epsilon at a delta; never above the sum of the largest losses."""
        _validate.probability(delta=delta)
        epsilon, rest = math.inf, delta - self._reserve
        if rest > 0:
            epsilon = float(self._distribution.get_epsilon_for_delta(rest)) + self._reserve
        return ApproxDP(epsilon=min(epsilon, self.largest * (1 + _ROUNDING)), delta=delta)

    @property
    def _reserve(self) -> float:
        return _ROUNDING * self.releases


def _row(values: Sequence[float]) -> dict[int, float]:
    row = {number: float(value) for number, value in enumerate(values)}
    mass = math.fsum(math.exp(value) for value in row.values())
    if not abs(mass - 1) <= _MASS_TOLERANCE:
        raise ParameterError(f"expected ln P(y) of all outputs y, of mass 1, got mass {mass:.6g}")
    return row


def _by_step(
    epsilons: Sequence[float], deltas: Sequence[float], resolution: float
) -> dict[int, float]:
    """Delta by number of steps: epsilon is rounded up, where the same delta still holds."""
    if len(epsilons) != len(deltas) or not len(epsilons):
        raise ParameterError("expected as many deltas as epsilons, at least one")
    curve: dict[int, float] = {}
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
            raise ParameterError("expected epsilons >= 0 and finite, and deltas within [0, 1]")
        step = math.ceil(float(epsilon) / resolution)
        curve[step] = min(float(delta), curve.get(step, 1.0))
    return curve


def _add_negative(curve: dict[int, float], resolution: float) -> dict[int, float]:
    """The curve, also at the negative epsilons; what holds at an epsilon holds above it."""
    mirrored = {
        -step: 1 - math.exp(-step * resolution) * (1 - delta) for step, delta in curve.items()
    }
    both, lowest = {}, 1.0
    for step in sorted({*curve, *mirrored}):
        lowest = min(lowest, curve.get(step, 1.0), mirrored.get(step, 1.0))
        both[step] = lowest
    return both


def _hull(curve: dict[int, float], resolution: float) -> tuple[list[int], list[float]]:
    """Steps and deltas of the lower convex hull over e^epsilon."""
    points: list[tuple[int, float, float]] = []
    for step in sorted(curve):
        new = (step, math.exp(step * resolution), curve[step])
        while len(points) > 1 and _slope(points[-2], points[-1]) >= _slope(points[-1], new):
            points.pop()
        points.append(new)
    return [step for step, _, _ in points], [delta for _, _, delta in points]


def _slope(left: tuple[int, float, float], right: tuple[int, float, float]) -> float:
    return (right[2] - left[2]) / (right[1] - left[1])
