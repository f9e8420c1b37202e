"""Confidence intervals for means over texts, whose tokens are not independent."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

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
        return clopper_pearson(int(successes.sum()), len(counts))
    if len(counts) == 1:
        return 0.0, 1.0
    if not successes.any():
        return clopper_pearson(0, len(counts))
    if (successes == counts).all():
        return clopper_pearson(len(counts), len(counts))
    return ratio_interval(successes, counts)


def clopper_pearson(hits: int, trials: int) -> tuple[float, float]:
    """The exact interval for the rate of independent trials."""
    from scipy.stats import beta

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(beta.ppf(1 - tail, hits + 1, trials - hits))
    return low, high
