"""What is counted, for Prometheus and OpenTelemetry: seconds and nats; no client, no text."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from dp_middleware.errors import needs

with needs("gateway"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)


class Measures:
    """Counters of one gateway; of all workers where ``$PROMETHEUS_MULTIPROC_DIR`` is set."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        own: Any = {"registry": self._registry, "namespace": "dp_gateway"}
        timed: Any = {**own, "buckets": _SECONDS}
        self.requests = Counter("requests", "Requests.", ("route", "status"), **own)
        self.seconds = Histogram("seconds", "Until the end of the answer.", ("route",), **timed)
        self.release_seconds = Histogram("release_seconds", "For release and charge.", **timed)
        self.releases = Counter("releases", "Draws; replays are none.", **own)
        self.nats = Counter("charged_nats", "Charged, where finite.", **own)
        self.upstream = Counter("upstream", "Answers.", ("outcome",), **own)
        self.refusals = Counter("refusals", "By code.", ("code",), **own)
        self.found = Counter("entities", "Found, by kind.", ("kind",), **own)
        self.detection = Histogram("detection_seconds", "Of a request.", **timed)
        self.inside = Gauge("inside", "Requests now.", multiprocess_mode="livesum", **own)
        self.tracer = _tracer()  # of spans of requests, sent where OpenTelemetry is told to

    def text(self) -> bytes:
        """Returns all in Prometheus' format."""
        registry = CollectorRegistry() if self._shared else self._registry
        if self._shared:
            collector: Any = MultiProcessCollector
            collector(registry)
        return generate_latest(registry)


def _tracer() -> Any:
    """OpenTelemetry's, or one whose spans are nothing."""
    try:
        from opentelemetry import trace
    except ImportError:
        span = SimpleNamespace(set_attributes=lambda _: None, end=lambda: None)
        return SimpleNamespace(start_span=lambda _: span)
    return trace.get_tracer("dp_middleware")
