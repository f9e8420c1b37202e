"""What an attack found: a rate with its interval and what it rests on, never text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _resampling, _validate
from dp_middleware.errors import ParameterError

Ids = NDArray[np.int64]


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
    low, high = _resampling.rate_interval(hits[top[0]], counts)
    return AttackResult(
        attack=attack,
        rate=rates[f"top {top[0]}"],
        low=low,
        high=high,
        confidence=_resampling.CONFIDENCE,
        trials=len(texts),
        assumptions=(*assumptions, UNKNOWN_LEFT_OUT, OVER_TEXTS),
        details={**rates, "tokens": float(counts.sum()), **details},
    )
