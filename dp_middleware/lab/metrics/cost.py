"""What a program costs: setup time, time per token, peak memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import TypeVar

from dp_middleware import _validate
from dp_middleware.lab.metrics.results import MetricResult

T = TypeVar("T")


def cost(
    setup: Callable[[], T], work: Callable[[T], object], *, tokens: int, runs: int = 6
) -> MetricResult:
    """Measures seconds per token of a program, and as details its setup time and peak memory.

    The median of ``runs``, after one that is not timed, between the fastest and the slowest: for
    independent runs that interval holds the true median with probability 1 - 2^(1 - runs).
    ``setup`` makes what the work needs; it is called twice: timed, and again with memory traced,
    when its files on disk may be there. ``tokens`` are those of one run. Details: ``"setup
    seconds"``, ``"peak bytes"``, ``"tokens"``.

    Raises:
        ParameterError: Fewer than one token or two runs.
    """
    _validate.at_least(1, tokens=tokens)
    _validate.at_least(2, runs=runs)
    setup_seconds, ready = _time(setup)
    work(ready)
    seconds = [_time(lambda: work(ready))[0] / tokens for _ in range(runs)]
    peak = _peak(lambda: work(setup()))
    return MetricResult(
        metric="seconds per token",
        value=median(seconds),
        low=min(seconds),
        high=max(seconds),
        confidence=1 - 2.0 ** (1 - runs),
        trials=runs,
        assumptions=(
            "wall-clock time on this computer, after a first run that may fill caches",
            "peak memory of setup and one run: Python objects and NumPy arrays, not what torch or "
            "a library allocates by itself",
        ),
        details={
            "setup seconds": setup_seconds,
            "peak bytes": float(peak),
            "tokens": float(tokens),
        },
    )


def _time(function: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def _peak(function: Callable[[], object]) -> int:
    """Bytes held at most beyond those at the start; a trace that was on stays on."""
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        function()
        return max(0, tracemalloc.get_traced_memory()[1] - start)
    finally:
        if not traced:
            tracemalloc.stop()
