"""Where the OpenAI Agents SDK records: its traces."""

from contextlib import contextmanager

from agents import tracing
from support.contract._sources import Notes, Recorder


class OpenAIAgentsRecorder(Recorder):
    """All traces and spans; none is exported, and none from then on."""

    def __init__(self):
        self._notes = Notes()

    @contextmanager
    def recording(self):
        provider = tracing.get_trace_provider()
        was_disabled = provider._manual_disabled
        tracing.set_tracing_disabled(False)
        tracing.set_trace_processors([_Processor(self._notes)])
        try:
            yield
        finally:
            tracing.set_trace_processors([])
            provider._manual_disabled = was_disabled

    def read(self):
        return {"OpenAI Agents traces": self._notes.text()}


class _Processor(tracing.TracingProcessor):
    def __init__(self, notes):
        self._notes = notes

    def on_trace_start(self, trace):
        self._notes.note(trace.export())

    def on_span_start(self, span):
        self._notes.note(span.export())

    on_trace_end, on_span_end = on_trace_start, on_span_start

    def shutdown(self):
        pass

    force_flush = shutdown
