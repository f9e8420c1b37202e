"""Where the OpenAI Agents SDK records: its traces."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agents.tracing import (
    TracingProcessor,
    get_trace_provider,
    set_trace_processors,
    set_tracing_disabled,
)
from support.contract._sources import Notes, Recorder


class OpenAIAgentsRecorder(Recorder):
    """All traces and spans; none is exported, and none from then on."""

    def __init__(self) -> None:
        self._notes = Notes()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """In place of the processors that export to the vendor."""
        provider: Any = get_trace_provider()
        was_disabled = provider._manual_disabled
        set_tracing_disabled(False)
        set_trace_processors([_Processor(self._notes)])
        try:
            yield
        finally:
            set_trace_processors([])
            provider._manual_disabled = was_disabled

    def read(self) -> dict[str, str]:
        """Source -> text."""
        return {"OpenAI Agents traces": self._notes.text()}


class _Processor(TracingProcessor):
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_trace_start(self, trace: Any) -> None:
        self._notes.note(trace.export())

    def on_span_start(self, span: Any) -> None:
        self._notes.note(span.export())

    on_trace_end, on_span_end = on_trace_start, on_span_start

    def shutdown(self) -> None:
        """Nothing to close."""

    def force_flush(self) -> None:
        """Nothing is held."""
