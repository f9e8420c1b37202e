"""Generalised randomised response in integers: one answer is likelier, all others alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dp_middleware.sampling.entropy import Entropy

OTHER = 1 << 64
"""Weight of every answer but the best one."""


@dataclass(frozen=True)
class Response:
    """Weights of M answers: the best one has its own, all others :data:`OTHER`.

    Reference:
        Kairouz, Oh and Viswanath (2014): k-ary randomised response.

    Guarantee:
        Two laws of one size differ by at most best / OTHER at every answer, whichever answers
        are the best ones: ln(best / OTHER) nats, and no more than the epsilon it is made for.

    Attributes:
        size: Number M of answers, at least 1.
        best: Weight of the best answer, an integer.
    """

    size: int
    best: int

    @classmethod
    def of(cls, epsilon: Fraction, size: int) -> Response:
        """The largest weight whose loss is at most epsilon nats."""
        context = Context(prec=40 + int(epsilon), rounding=ROUND_FLOOR)
        exponent = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
        weight = context.multiply(context.exp(exponent), Decimal(OTHER))
        # exp is rounded to nearest: one unit less is below the true value at this precision
        return cls(size=size, best=max(OTHER, math.floor(context.next_minus(weight))))

    @property
    def total(self) -> int:
        """Of all weights."""
        return self.best + (self.size - 1) * OTHER

    @property
    def hit(self) -> float:
        """Probability of the best answer."""
        return self.best / self.total

    @property
    def loss(self) -> float:
        """ln(best / OTHER), nats, rounded up; 0 if there is no other answer."""
        if self.size == 1 or self.best == OTHER:
            return 0.0
        digits = 30 + len(str(self.best))  # what the weight was rounded off is seen in them
        up = Context(prec=digits, rounding=ROUND_CEILING)
        exact = up.next_plus(up.ln(up.divide(Decimal(self.best), Decimal(OTHER))))
        near = float(exact)
        return near if Decimal(near) >= exact else math.nextafter(near, math.inf)

    def draw(self, best: int, entropy: Entropy) -> int:
        """An answer in 0 .. M - 1, by one uniform integer below the total of the weights.

        Args:
            best: Which answer is the best one. Private.
            entropy: Source of random bytes.
        """
        assert 0 <= best < self.size  # else another answer would be impossible
        place = _below(self.total, entropy) - self.best
        if place < 0:
            return best
        other = place // OTHER
        return other if other < best else other + 1


def _below(total: int, entropy: Entropy) -> int:
    """A uniform integer in 0 .. total - 1: bits are drawn until they are below it."""
    bits = total.bit_length()
    size = (bits + 7) // 8
    while (number := int.from_bytes(entropy(size), "little") >> (8 * size - bits)) >= total:
        pass
    return number
