"""Results with confidence intervals over texts: means, rates, and what must be resampled whole.

Below about 20 texts a bootstrap interval is a rough guide; of a single text nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_middleware.metrics import results
from dp_middleware.metrics.results import CONFIDENCE, MetricResult

Ends = tuple[float, float]

_RESAMPLES = 1000
_SEED = 0  # an interval is a function of its data


def resampled(draw: Callable[[np.random.Generator], float]) -> Ends:
    """The middle 95 % of a statistic of resampled texts.

    Args:
        draw: The statistic of one resample, drawn with the generator.
    """
    generator = np.random.default_rng(_SEED)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile([draw(generator) for _ in range(_RESAMPLES)], [tail, 1 - tail])
    return float(low), float(high)


def result(
    metric: str,
    value: float,
    interval: Ends,
    trials: int,
    assumptions: Sequence[str],
    details: dict[str, float],
) -> MetricResult:
    """A value with its 95 % interval over so many texts."""
    low, high = interval
    return MetricResult(
        metric=metric,
        value=value,
        low=low,
        high=high,
        confidence=CONFIDENCE,
        trials=trials,
        assumptions=tuple(assumptions),
        details=details,
    )


def of_mean(
    metric: str,
    values: ArrayLike,
    scale: Ends,
    assumptions: Sequence[str],
    details: dict[str, float],
) -> MetricResult:
    """The mean of one number per text; ``scale`` holds the values it can take."""
    numbers = np.asarray(values, dtype=np.float64)
    several = len(numbers) > 1
    interval = results.ratio_interval(numbers, np.ones_like(numbers)) if several else scale
    return result(metric, float(numbers.mean()), interval, len(numbers), assumptions, details)


def of_rate(
    metric: str,
    right: NDArray[np.bool_],
    assumptions: Sequence[str],
    details: dict[str, float],
) -> MetricResult:
    """The share of texts for which something holds, with the exact binomial interval."""
    interval = results.exact_interval(int(right.sum()), len(right))
    return result(metric, float(right.mean()), interval, len(right), assumptions, details)
