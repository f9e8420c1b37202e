"""Random bytes, uniform integers made of them, and randomised response in integers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from hashlib import shake_256
from itertools import count

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Entropy = Callable[[int], bytes]

os_entropy: Entropy = os.urandom  # of the operating system; fresh after fork and unpickling


def random_words(count: int, entropy: Entropy) -> Words:
    """Draws uniform integers below 2^64."""
    return np.frombuffer(entropy(8 * count), dtype=np.uint64)


def expanded(seed: bytes) -> Entropy:
    """Bytes that follow from a secret seed of 32 random ones, for one draw: SHAKE-256."""
    numbers = count()
    return lambda size: shake_256(seed + next(numbers).to_bytes(8, "big")).digest(size)


def below(total: int, entropy: Entropy) -> int:
    """Draws a uniform integer in 0 .. total - 1: bits are drawn until they are below it."""
    bits = total.bit_length()
    size = (bits + 7) // 8
    while (number := int.from_bytes(entropy(size), "little") >> (8 * size - bits)) >= total:
        pass
    return number


OTHER = 1 << 64  # weight of every answer but the best one


@dataclass(frozen=True)
class Response:
    """Weights of M answers: the best one has its own, all others :data:`OTHER`.

    Guarantee:
        Two laws of one size differ by at most best / OTHER at every answer, whichever answers are
        the best ones (Kairouz, Oh and Viswanath, 2014: k-ary randomised response).
    """

    size: int  # number M of answers, at least 1
    best: int  # weight of the best answer

    @classmethod
    def of(cls, epsilon: Fraction, size: int) -> Response:
        """Finds the largest weight whose loss is at most epsilon nats."""
        return cls(size=size, best=max(OTHER, math.floor(exp_below(epsilon) * OTHER)))

    @property
    def total(self) -> int:
        """Adds up all weights."""
        return self.best + (self.size - 1) * OTHER

    @property
    def hit(self) -> float:
        """Computes the probability of the best answer."""
        return self.best / self.total

    @property
    def loss(self) -> float:
        """Computes ln(best / OTHER), nats, rounded up; 0 if there is no other answer."""
        if self.size == 1 or self.best == OTHER:
            return 0.0
        return log_above(Fraction(self.best, OTHER))

    def draw(self, best: int, entropy: Entropy) -> int:
        """Draws an answer in 0 .. M - 1 by a uniform integer; which is the best one is private."""
        assert 0 <= best < self.size  # else another answer would be impossible
        place = below(self.total, entropy) - self.best
        if place < 0:
            return best
        other = place // OTHER
        return other if other < best else other + 1


@dataclass(frozen=True)
class Coin:
    """Falls on heads with a probability of k / 2^64: then a text's own answer is released.

    Guarantee:
        Else an answer comes from public masses. Where those of a text's own are at least ``least``,
        no answer is likelier for one text than for another by more than :attr:`ratio`.
    """

    heads: int  # k
    least: Fraction  # in (0, 1]

    @classmethod
    def of(cls, epsilon: Fraction, least: Fraction) -> Coin:
        """Finds the one with the most heads whose loss is at most epsilon nats."""
        odds = (exp_below(epsilon) - 1) * least
        return cls(heads=math.floor(OTHER * odds / (1 + odds)), least=least)

    @property
    def share(self) -> Fraction:
        """Computes the probability of heads."""
        return Fraction(self.heads, OTHER)

    @property
    def ratio(self) -> Fraction:
        """Computes 1 + k / ((2^64 - k) least), exactly."""
        return 1 + self.heads / ((OTHER - self.heads) * self.least)

    @property
    def loss(self) -> float:
        """Computes ln of the factor, nats, rounded up."""
        return log_above(self.ratio)

    def toss(self, entropy: Entropy) -> bool:
        """Tells whether it is heads."""
        return int.from_bytes(entropy(8), "little") < self.heads


def exp_below(exponent: Fraction) -> Fraction:
    """Computes e^exponent, for a positive one, rounded down in its fortieth digit."""
    context = Context(prec=60 + int(exponent), rounding=ROUND_FLOOR)
    power = context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    # exp is rounded to nearest: one unit less is below the true value at this precision
    return Fraction(context.next_minus(power))


def log_above(ratio: Fraction) -> float:
    """Computes ln of a number of at least 1, rounded up to a float; 0 for 1."""
    if ratio == 1:
        return 0.0
    digits = 30 + len(str(ratio.numerator))  # what the ratio was rounded off is seen in them
    up = Context(prec=digits, rounding=ROUND_CEILING)
    quotient = up.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exact = up.next_plus(up.ln(quotient))
    near = float(exact)
    return near if Decimal(near) >= exact else math.nextafter(near, math.inf)
