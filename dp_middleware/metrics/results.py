"""One value of one metric, with its interval and what it relies on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.errors import ParameterError

CONFIDENCE = 0.95
"""Of every interval made here."""

_DRAWS = 2000
_SEED = 0  # an interval is a function of its data
_AT_ONCE = 1 << 22  # resampled texts held


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike) -> tuple[float, float]:
    """An interval for sum(numerators) / sum(denominators): the bootstrap over texts.

    Whole texts are drawn with replacement, 2,000 times with a fixed seed; the 2.5 and 97.5
    percentiles of the ratio. Too narrow for few texts, as every bootstrap is: below about 20 it
    is a rough guide.

    Args:
        numerators: float (m,), one per text.
        denominators: float (m,), positive; ones for a plain mean.

    Returns:
        Lower and upper end; both the ratio itself if all texts have the same.
    """
    above = np.asarray(numerators, dtype=np.float64)
    below = np.asarray(denominators, dtype=np.float64)
    generator = np.random.default_rng(_SEED)
    rows = max(1, _AT_ONCE // len(above))
    ratios: list[Floats] = []
    for start in range(0, _DRAWS, rows):
        count = min(rows, _DRAWS - start)
        drawn = generator.integers(0, len(above), (count, len(above)))
        ratios.append(above[drawn].sum(axis=1) / below[drawn].sum(axis=1))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(ratios), [tail, 1 - tail])
    return float(low), float(high)


def rate_interval(hits: ArrayLike, trials: ArrayLike) -> tuple[float, float]:
    """An interval for a rate in [0, 1] from successes and trials of each text.

    Clopper-Pearson where every text is one trial; else the bootstrap of :func:`ratio_interval`.
    A rate of 0 or 1 has no spread to resample: there the far end is Clopper-Pearson's with one
    trial per text. Of one text nothing is known: [0, 1].

    Args:
        hits: int (m,), successes of each text.
        trials: int (m,), at least 1 each.
    """
    successes, counts = np.asarray(hits), np.asarray(trials)
    if (counts == 1).all():
        return exact_interval(int(successes.sum()), len(counts))
    if len(counts) == 1:
        return 0.0, 1.0
    if not successes.any():
        return exact_interval(0, len(counts))
    if (successes == counts).all():
        return exact_interval(len(counts), len(counts))
    return ratio_interval(successes, counts)


def exact_interval(hits: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's interval for the rate of independent trials."""
    from scipy.stats import binomtest

    interval = binomtest(hits, trials).proportion_ci(CONFIDENCE)
    return float(interval.low), float(interval.high)


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """What a metric gives. Holds numbers only, never text.

    Attributes:
        metric: Its name.
        value: In the metric's own unit.
        low: Lower end of the interval; equal to the value where it is exact.
        high: Upper end.
        confidence: Coverage of the interval; 1.0 where the value is exact.
        trials: How many texts, tokens or runs the interval is over; 0 where the value is exact.
        assumptions: What the number relies on, in sentences.
        details: Further numbers by name; JSON-ready.
    """

    metric: str
    value: float
    low: float
    high: float
    confidence: float
    trials: int
    assumptions: tuple[str, ...] = ()
    details: dict[str, float] = field(default_factory=dict)


def exact(
    metric: str, value: float, assumptions: tuple[str, ...], details: dict[str, float]
) -> MetricResult:
    """A value without sampling error."""
    return MetricResult(
        metric=metric,
        value=value,
        low=value,
        high=value,
        confidence=1.0,
        trials=0,
        assumptions=assumptions,
        details=details,
    )


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """How often an attack succeeds.

    Attributes:
        attack: Name of the attack, such as ``"bayes"``.
        rate: Share of tokens (or n-grams) that the attack recovers, in [0, 1].
        low: Lower end of the interval; equal to ``rate`` where that is exact.
        high: Upper end.
        confidence: Of the interval; 1.0 where the rate is exact.
        trials: Texts that the interval is over; 0 where the rate is exact.
        assumptions: What attacker and interval rest on, in sentences.
        details: Further numbers by name, such as ``"top 5"``; ready for JSON.
    """

    attack: str
    rate: float
    low: float
    high: float
    confidence: float
    trials: int
    assumptions: tuple[str, ...]
    details: dict[str, float]


OVER_TEXTS = "interval: 95 %, texts are independent of each other, tokens of one text are not"
UNKNOWN_LEFT_OUT = "tokens outside the vocabulary are left out"
MISSED = np.iinfo(np.int64).max
"""Rank of a token that the attacker does not name at all."""


def sizes(top: int | Sequence[int]) -> tuple[int, ...]:
    """How many guesses count as one success, ascending.

    Raises:
        ParameterError: None, or one that is not a positive integer.
    """
    asked = tuple(top) if isinstance(top, Sequence) else (top,)
    if not asked:
        raise ParameterError("expected top as one or more numbers of guesses, got none")
    for count in asked:
        _validate.at_least(1, top=count)
    return tuple(sorted({int(count) for count in asked}))


def of_rates(
    attack: str,
    rates: dict[int, float],
    assumptions: tuple[str, ...],
    details: dict[str, float],
) -> AttackResult:
    """An exact result; the rate is that of the fewest guesses."""
    rate = rates[min(rates)]
    named = {f"top {count}": found for count, found in rates.items()}
    return AttackResult(
        attack=attack,
        rate=rate,
        low=rate,
        high=rate,
        confidence=1.0,
        trials=0,
        assumptions=assumptions,
        details={**named, **details},
    )


def of_ranks(
    attack: str,
    ranks: Sequence[Ids],
    top: tuple[int, ...],
    assumptions: tuple[str, ...],
    details: dict[str, float],
) -> AttackResult:
    """A result from the place that the true token has among the attacker's guesses.

    Args:
        attack: Name of the attack.
        ranks: For each text int64 (n,), from 1; :data:`MISSED` if not named.
        top: As from :func:`sizes`; the rate is that of the fewest guesses.
        assumptions: Of the attacker; those of the interval are added.
        details: Further numbers.

    Raises:
        ParameterError: There is no token to attack.
    """
    texts = [found for found in ranks if len(found)]
    if not texts:
        raise ParameterError("expected texts with a token of the vocabulary, got none to attack")
    counts = np.array([len(found) for found in texts])
    hits = {k: np.array([int((found <= k).sum()) for found in texts]) for k in top}
    rates = {f"top {k}": float(hits[k].sum() / counts.sum()) for k in top}
    low, high = rate_interval(hits[top[0]], counts)
    return AttackResult(
        attack=attack,
        rate=rates[f"top {top[0]}"],
        low=low,
        high=high,
        confidence=CONFIDENCE,
        trials=len(texts),
        assumptions=(*assumptions, UNKNOWN_LEFT_OUT, OVER_TEXTS),
        details={**rates, "tokens": float(counts.sum()), **details},
    )
