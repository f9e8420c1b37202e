"""Two inputs told apart by one event, chosen by known rows or a pilot, tested on fresh draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware.embedding.arrays import Floats, Ids
from dp_middleware.sampling.entropy import Entropy

Score = Callable[[Any], Floats]  # of releases: ids, or vectors
Event = tuple[tuple[float, float], Score, int, float]
"""Its rank, and releases whose score, times a sign (-1: of the other text), reaches a threshold."""

_LARGEST = 700.0  # exponents without overflow
_TESTABLE = 10  # hits below which no event shows anything
_SMOOTHING = 0.5  # added to each count of a pilot
_THRESHOLDS = 64  # tried per score
_PILOT_RISK = 0.05  # at which pilots are compared; decides on power, not on validity


@dataclass(frozen=True)
class Sampling:
    """Counts draws of each input of a test, with its risk and where bytes come from."""

    samples: int
    risk: float
    entropy: Entropy


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Holds a lower bound on the loss, nats, the ids that make an event likely and unlikely.

    ``output`` is its likeliest release.
    """

    epsilon: float
    claim: float
    draws: int
    tokens: tuple[int, int] | None = None
    output: Ids | None = None


def rank(epsilon: float, claim: float) -> tuple[float, float]:
    """Orders bounds on different claims: the most refuted one, or else the largest."""
    return max(0.0, epsilon - claim), epsilon


def clopper_pearson(hits: ArrayLike, samples: int, risk: float) -> tuple[Floats, Floats]:
    """Bounds rates from below and above, each failing with probability ``risk``."""
    from scipy.stats import beta

    count = np.asarray(hits)
    low = beta.ppf(risk, np.maximum(count, 1), samples - count + 1)
    high = beta.isf(risk, count + 1, np.maximum(samples - count, 1))
    return np.where(count > 0, low, 0.0), np.where(count < samples, high, 1.0)


def log_ratio(hits: ArrayLike, misses: ArrayLike, samples: int, risk: float) -> Floats:
    """Bounds ln P(event | first) / P(event | second) from below, at least 0; nats.

    Wrong with probability ``risk``; draws of each that fell into it, out of ``samples``.
    """
    low, _ = clopper_pearson(hits, samples, risk / 2)
    _, high = clopper_pearson(misses, samples, risk / 2)
    ratio: Floats = np.log(np.maximum(low / high, 1.0))
    return ratio


def from_rows(
    rows: Floats,
    tokens: Ids,
    claims: Floats,
    neighbours: NDArray[np.bool_],
    draw: Callable[[int, int], Ids],
    sampling: Sampling,
) -> Outcome:
    """Tests the pair whose rows differ most at its claim, by {y : P(y) > factor P'(y)}.

    ``rows`` are probabilities, float64 (R, V), of ``tokens``, int64 (R,); ``claims``, float64
    (R, R), in nats, and ``neighbours`` are of pairs; ``draw`` takes a row and a count.
    """
    samples, risk = sampling.samples, sampling.risk
    first, second, factor = _widest(rows, claims, neighbours, samples)
    event = rows[first] > factor * rows[second]
    hits, misses = (int(event[draw(row, samples)].sum()) for row in (first, second))
    likeliest = np.array([np.where(event, rows[first], 0.0).argmax()])
    return Outcome(
        epsilon=float(log_ratio(hits, misses, samples, risk)),
        claim=float(claims[first, second]),
        draws=2 * samples,
        tokens=(int(tokens[first]), int(tokens[second])),
        output=likeliest if event.any() else None,
    )


def _widest(
    rows: Floats, claims: Floats, neighbours: NDArray[np.bool_], samples: int
) -> tuple[int, int, float]:
    """The pair with the largest mass by which its claim fails, or a smaller one, and the factor."""
    within = np.minimum(claims, math.log(samples) - 2)
    levels = [np.minimum(claims, _LARGEST), *(within * share for share in (1, 0.5, 0.25, 0))]
    for factors in map(np.exp, levels):
        excess = np.zeros_like(factors)
        for k, (p, line) in enumerate(zip(rows, factors, strict=True)):
            excess[k] = np.maximum(p - line[:, None] * rows, 0.0).sum(axis=1)
        excess[~neighbours] = 0.0
        if excess.max() >= _TESTABLE / samples:
            break
    first, second = (int(k) for k in np.unravel_index(int(excess.argmax()), excess.shape))
    return first, second, float(factors[first, second])


@dataclass(frozen=True, kw_only=True)
class TextPair:
    """Holds two texts to tell apart, arrays (n,), the ids in which they differ, and the claim."""

    texts: tuple[NDArray[Any], NDArray[Any]]
    tokens: tuple[int, int]
    claim: float


def from_draws(
    pairs: Sequence[TextPair],
    draw: Callable[[Any, int], NDArray[Any]],
    size: int,
    sampling: Sampling,
    scores: Sequence[Score] = (),
) -> Outcome:
    """Tests a pair and an event chosen by a pilot, on draws that the pilot has not seen.

    A quarter of the draws, shared among the pairs, learns how likely releases are under both texts,
    unless ``scores`` are known; as many, or half, choose pair, score and threshold; half tests. The
    texts of a pair differ at one position; ``draw`` makes releases (count, n).
    """
    samples = sampling.samples
    pilots = (1 if scores else 2) * 2 * len(pairs)
    part = samples // pilots
    events: list[tuple[TextPair, Event]] = []
    for pair in pairs:
        own = scores
        if not scores:
            learning = [draw(text, part) for text in pair.texts]
            changed = int(np.flatnonzero(pair.texts[0] != pair.texts[1])[0])
            own = _scores(learning[0], learning[1], changed, size)
        choosing = [draw(text, part) for text in pair.texts]
        events += [(pair, event) for of in own for event in best_events(of, choosing, pair.claim)]
    chosen, (_, score, sign, threshold) = max(events, key=lambda event: event[1][0])
    tested = samples - samples // 2
    likely, unlikely = (draw(text, tested) for text in chosen.texts[::sign])
    inside = likely[sign * score(likely) >= threshold]
    misses = (sign * score(unlikely) >= threshold).sum()
    distinct, counts = np.unique(inside, axis=0, return_counts=True)
    token, other = chosen.tokens[::sign]
    return Outcome(
        epsilon=float(log_ratio(len(inside), misses, tested, sampling.risk)),
        claim=chosen.claim,
        draws=pilots * part + 2 * tested,
        tokens=(token, other),
        output=distinct[counts.argmax()] if len(inside) else None,
    )


def _scores(ones: Ids, others: Ids, changed: int, size: int) -> list[Score]:
    """Smoothed log likelihood ratios: of a whole release, its positions, the changed one."""
    counts, other_counts = (Counter(text.tobytes() for text in part) for part in (ones, others))
    whole = {key: _smoothed(counts[key], other_counts[key]) for key in counts | other_counts}

    def of_whole(texts: Ids) -> Floats:
        return np.array([whole.get(text.tobytes(), 0.0) for text in texts])

    if ones.shape[1] == 1:
        return [of_whole]
    positions = np.arange(ones.shape[1])
    tables = _smoothed(  # how often each token was released at each position, (n, V)
        *([np.bincount(column, minlength=size) for column in part.T] for part in (ones, others))
    )
    return [
        of_whole,
        lambda texts: tables[positions, texts].sum(axis=1),
        lambda texts: tables[changed, texts[:, changed]],
    ]


def _smoothed(count: ArrayLike, other: ArrayLike) -> Floats:
    ratio: Floats = np.log((np.asarray(count) + _SMOOTHING) / (np.asarray(other) + _SMOOTHING))
    return ratio


def best_events(score: Score, choosing: Sequence[NDArray[Any]], claim: float) -> list[Event]:
    """Finds the best threshold of a score in each of the two directions."""
    scored, events = [score(part) for part in choosing], list[Event]()
    for sign in (1, -1):
        likely, unlikely = (sign * values for values in scored[::sign])
        thresholds = np.unique(likely)
        spread = np.linspace(0, len(thresholds) - 1, min(len(thresholds), _THRESHOLDS))
        thresholds = thresholds[spread.astype(np.int64)]
        hits, misses = ((v[:, None] >= thresholds).sum(axis=0) for v in (likely, unlikely))
        bounds = log_ratio(hits, misses, len(likely), _PILOT_RISK)
        best = int(bounds.argmax())
        events.append((rank(float(bounds[best]), claim), score, sign, float(thresholds[best])))
    return events
