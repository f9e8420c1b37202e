"""What is counted, for Prometheus: routes, statuses, seconds and nats; no client, no text."""

from __future__ import annotations

import os
from typing import Any

from dp_middleware.errors import MissingExtra

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
except ModuleNotFoundError:
    raise MissingExtra("prometheus-client", "gateway") from None

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)


class Measures:
    """Counters of one gateway; of all workers where ``$PROMETHEUS_MULTIPROC_DIR`` is set."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        own: Any = {"registry": self._registry}
        labels = ("route", "status")
        self._requests = Counter("dp_gateway_requests", "Requests.", labels, **own)
        self._seconds = Histogram(
            "dp_gateway_seconds",
            "Until the end of the answer.",
            ("route",),
            buckets=_SECONDS,
            **own,
        )
        self._release_seconds = Histogram(
            "dp_gateway_release_seconds", "For release and charge.", buckets=_SECONDS, **own
        )
        self._releases = Counter("dp_gateway_releases", "Draws; replays are none.", **own)
        self._nats = Counter("dp_gateway_charged_nats", "Charged, where finite.", **own)
        self._upstream = Counter("dp_gateway_upstream", "Answers.", ("outcome",), **own)
        self.inside = Gauge(
            "dp_gateway_inside", "Requests now.", multiprocess_mode="livesum", **own
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request ended."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def released(self, draws: int, nats: float, seconds: float) -> None:
        """A transcript was released."""
        self._release_seconds.observe(seconds)
        self._releases.inc(draws)
        if nats < float("inf"):
            self._nats.inc(nats)

    def upstream(self, outcome: str) -> None:
        """The upstream answered, with a status or a word of ours."""
        self._upstream.labels(outcome).inc()

    def text(self) -> bytes:
        """In Prometheus' format."""
        registry = self._registry
        if self._shared:
            registry = CollectorRegistry()
            collector: Any = MultiProcessCollector
            collector(registry)
        return generate_latest(registry)
