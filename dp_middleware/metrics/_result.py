"""One value of one metric, with its interval and what it relies on."""

from __future__ import annotations

from dataclasses import dataclass, field


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
