"""What an embedding service did: counts and times, never texts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

_KEPT = 4096  # latencies


@dataclass(frozen=True, kw_only=True)
class ServiceMetrics:
    """A snapshot of a service's worker since the start of the process.

    For the operator: counts of equal texts and times of requests depend on private texts.

    Attributes:
        queue_depth: Texts in the queue, at most its capacity.
        outside: Requests that wait for a place in the queue.
        requests: Answered, failed ones not counted. A long list of texts is several.
        texts: In the answered requests.
        deduplicated: Texts of these that the model did not see, as an equal one was in its batch.
        batches: Calls of the model, failed ones counted.
        largest_batch: Most distinct texts in one of them.
        failures: Requests that failed.
        latency_p50: Seconds from call to answer, the median of the last 4,096 requests; 0 if none.
        latency_p99: The same, exceeded by one request in a hundred.
    """

    queue_depth: int
    outside: int
    requests: int
    texts: int
    deduplicated: int
    batches: int
    largest_batch: int
    failures: int
    latency_p50: float
    latency_p99: float

    @property
    def mean_batch(self) -> float:
        """Distinct texts per call of the model."""
        return (self.texts - self.deduplicated) / self.batches if self.batches else 0.0


@dataclass
class Tally:
    """Running counts; change them under a lock only."""

    requests: int = 0
    texts: int = 0
    deduplicated: int = 0
    batches: int = 0
    largest_batch: int = 0
    failures: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def count_call(self, distinct: int) -> None:
        """The model is given a batch."""
        self.batches += 1
        self.largest_batch = max(self.largest_batch, distinct)

    def count_answers(self, texts: int, distinct: int, latencies: list[float]) -> None:
        """A batch of requests was answered, each after so many seconds."""
        self.requests += len(latencies)
        self.texts += texts
        self.deduplicated += texts - distinct
        self.latencies.extend(latencies)

    def snapshot(self, queue_depth: int, outside: int) -> ServiceMetrics:
        """The counts now."""
        counts = {name: value for name, value in vars(self).items() if name != "latencies"}
        p50, p99 = np.quantile(list(self.latencies) or [0.0], (0.5, 0.99)).tolist()
        return ServiceMetrics(
            queue_depth=queue_depth, outside=outside, latency_p50=p50, latency_p99=p99, **counts
        )
