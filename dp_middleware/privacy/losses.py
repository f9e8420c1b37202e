"""Exact composition: the distribution of the privacy loss, convolved through ``dp_accounting``."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dp_middleware import _validate
from dp_middleware.errors import IncompatibleGuarantees, MissingExtra, ParameterError
from dp_middleware.privacy.guarantee import ApproxDP

RESOLUTION = 1e-4
"""Nats to which losses are rounded up; a release costs at most so much too much."""

_ROUNDING = 1e-12  # per release: of logarithms, and of the transforms that convolve
_MASS_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class LossDistribution:
    """How ln P(y) - ln Q(y) is distributed for y ~ P, and the reverse.

    P and Q are what two adjacent inputs release. Build one with :meth:`of_rows` or
    :meth:`of_curve`.

    Guarantee:
        Losses are rounded up and what is cut off counts as infinite, so delta is never understated;
        a reserve of 1e-12 per release covers floating point. Composed with any later release, also
        adaptively (Zhu, Dong and Wang, 2022, Theorem 10), with parameters fixed in advance.

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
        """Of one pair of tokens; says nothing of other pairs.

        Args:
            log_p: Row of a token, ln P(y); length V, ``-inf`` where impossible.
            log_q: Row of another.
            resolution: Nats.
        """
        _validate.positive(resolution=resolution)
        p, q = _row(log_p), _row(log_q)
        if len(p) != len(q):
            raise ParameterError(f"expected rows of equal length, got {len(p)} and {len(q)}")
        module = _accounting().privacy_loss_distribution
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
        """Of all adjacent pairs at once, from a curve of deltas, as ``delta_curve`` gives.

        Guarantee:
            The lower convex hull of the curve, in e^epsilon, is above the true one, which is
            convex; symmetric adjacency gives delta(-eps) = 1 - e^-eps (1 - delta(eps)). Connecting
            the dots yields a pair whose curve is the hull: it dominates every adjacent pair
            (Doroshenko et al., 2022).

        Args:
            epsilons: Nats, at least 0; more points, a tighter bound.
            deltas: For each epsilon a delta that holds for all adjacent pairs.
            resolution: Nats.
        """
        _validate.positive(resolution=resolution)
        steps, heights = _hull(_symmetric(_snapped(epsilons, deltas, resolution), resolution),
                               resolution)  # fmt: skip
        accounting = _accounting()
        masses = accounting.pld_pmf.create_pmf_pessimistic_connect_dots(resolution, steps, heights)
        distribution = accounting.privacy_loss_distribution.PrivacyLossDistribution(masses)
        largest = steps[-1] * resolution if heights[-1] == 0 else math.inf
        return cls(releases=1, largest=largest, resolution=resolution, _distribution=distribution)

    def times(self, count: int) -> LossDistribution:
        """Of ``count`` releases of the same text."""
        _validate.at_least(1, count=count)
        return LossDistribution(
            releases=self.releases * count,
            largest=self.largest * count,
            resolution=self.resolution,
            _distribution=self._distribution.self_compose(int(count)),
        )

    def then(self, other: LossDistribution) -> LossDistribution:
        """Of both.

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
        if not epsilon >= 0:
            raise ParameterError(f"expected epsilon >= 0, got epsilon={epsilon}")
        if epsilon >= self.largest * (1 + _ROUNDING):
            return 0.0
        shifted = max(0.0, epsilon - self._reserve)
        found = float(self._distribution.get_delta_for_epsilon(shifted))
        return min(1.0, max(0.0, found) + self._reserve)

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


def _snapped(
    epsilons: Sequence[float], deltas: Sequence[float], resolution: float
) -> dict[int, float]:
    """Delta by number of steps: epsilon rounded up, where the same delta still holds."""
    if len(epsilons) != len(deltas) or not len(epsilons):
        raise ParameterError("expected as many deltas as epsilons, at least one")
    curve: dict[int, float] = {}
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
            raise ParameterError("expected epsilons >= 0 and finite, and deltas within [0, 1]")
        step = math.ceil(float(epsilon) / resolution)
        curve[step] = min(float(delta), curve.get(step, 1.0))
    return curve


def _symmetric(curve: dict[int, float], resolution: float) -> dict[int, float]:
    """Also at the negative epsilons."""
    mirrored = {
        -step: 1 - math.exp(-step * resolution) * (1 - delta) for step, delta in curve.items()
    }
    found, lowest = {}, 1.0
    for step in sorted({*curve, *mirrored}):  # what holds at an epsilon holds above it
        lowest = min(lowest, curve.get(step, 1.0), mirrored.get(step, 1.0))
        found[step] = lowest
    return found


def _hull(curve: dict[int, float], resolution: float) -> tuple[list[int], list[float]]:
    """Lower convex hull over e^epsilon."""
    points: list[tuple[int, float, float]] = []
    for step in sorted(curve):
        new = (step, math.exp(step * resolution), curve[step])
        while len(points) > 1 and _slope(points[-2], points[-1]) >= _slope(points[-1], new):
            points.pop()
        points.append(new)
    heights = [height for _, _, height in points]
    return [step for step, _, _ in points], heights


def _slope(left: tuple[int, float, float], right: tuple[int, float, float]) -> float:
    return (right[2] - left[2]) / (right[1] - left[1])


def _accounting() -> Any:
    try:
        return importlib.import_module("dp_accounting.pld")
    except ImportError:
        raise MissingExtra("dp-accounting", "accounting") from None
