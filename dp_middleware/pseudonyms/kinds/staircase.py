"""The law of kinds that stay near their value: the nearest points of a public grid are likelier."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dp_middleware import _validate
from dp_middleware.pseudonyms.mapping import Kind

STEEPEST = 600.0  # nats; the exponential of some more is no number


@dataclass(frozen=True)
class Staircase:
    """Of the points of a public grid, the nearest ones are more likely by one factor.

    Guarantee:
        Every row has the same number of near points (windows move inside at the ends), so all
        normalisers are equal and two rows differ by :attr:`loss` at most; exactly by it where
        not all points are near.

    Attributes:
        epsilon: Nats between any two values. Positive; above :data:`STEEPEST` the law is that of
            this number.
    """

    epsilon: float

    @property
    def weights(self) -> tuple[int, int]:
        """Of a near point and of another: e^epsilon, rounded down."""
        other = 1 << 20
        near = math.floor(math.exp(min(self.epsilon, STEEPEST)) * (1 - 2**-50) * other)
        return max(other, near), other

    @property
    def loss(self) -> float:
        """Nats, at most epsilon."""
        near, other = self.weights
        return math.log(near / other)

    def near_points(self, points: int) -> int:
        """Returns how many points of a grid are near.

        With a share x of the points, a long grid and a uniform value, the mean error is
        (a x^2 / 4 + 1/3) / (a x + 1) of its length, a = e^epsilon - 1; this share makes it least.
        """
        a = math.expm1(min(self.epsilon, STEEPEST))
        share = (math.sqrt(1 + 4 * a / 3) - 1) / a
        return min(points, max(1, round(share * points)))

    def row(self, below: int, points: int) -> list[int]:
        """Returns the weights of all points for a value, which so many are below."""
        near, other = self.weights
        width = self.near_points(points)
        start = min(max(below - width // 2, 0), points - width)
        return [other] * start + [near] * width + [other] * (points - width - start)


@dataclass(frozen=True, kw_only=True)
class NearKind(Kind):
    """A kind whose pseudonyms may stay near their values, at epsilon nats between any two."""

    laws: ClassVar[tuple[str, ...]] = ("near", "uniform")

    law: str = "near"
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        _validate.one_of(self.laws, law=self.law)
        _validate.positive(epsilon=self.epsilon)

    @cached_property
    def loss(self) -> float:  # type: ignore[override]
        """Nats per distinct value, between any two values of one shape."""
        return Staircase(self.epsilon).loss if self.law == "near" else 0.0

    def weights(self, key: str, shape: str, points: Sequence[int]) -> list[int]:
        """Returns what a value's law gives to each of the ascending points, as integers."""
        if self.law == "uniform":
            return [1] * len(points)
        return Staircase(self.epsilon).row(
            bisect_left(points, self._value(key, shape)), len(points)
        )

    def _value(self, key: str, shape: str) -> int:
        raise NotImplementedError  # the point of a value
