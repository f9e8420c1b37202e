"""What LlamaIndex records: spans and events of its instrumentation, and callback handlers."""

from contextlib import contextmanager
from typing import Any
from unittest import mock

import llama_index.core
from llama_index.core import Settings
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index_instrumentation import root_dispatcher
from support.contract._sources import Notes, Recorder

from dp_middleware.models.recorders import Discreet


class _Events(BaseEventHandler):
    notes: Any

    def handle(self, event, **kwargs):
        self.notes.note(event, kwargs)


class _Spans(BaseSpanHandler[Any]):  # what an instance keeps, as an index its documents, is its own
    _notes: Any

    def __init__(self, notes):
        super().__init__()
        self._notes = notes

    def new_span(self, id_, bound_args, instance=None, *args, **kwargs):
        self._notes.note("start", id_, bound_args, args, kwargs)

    def prepare_to_exit_span(self, id_, bound_args, instance=None, result=None, **kwargs):
        self._notes.note("end", id_, bound_args, result, kwargs)

    def prepare_to_drop_span(self, id_, bound_args, instance=None, err=None, **kwargs):
        self._notes.note("failed", id_, bound_args, err, kwargs)


class _Callbacks(BaseCallbackHandler):
    def __init__(self, notes):
        super().__init__([], [])
        self._notes = notes

    def on_event_start(self, *args, **kwargs):
        self._notes.note("start", args, kwargs)
        return str(kwargs.get("event_id", ""))

    def on_event_end(self, *args, **kwargs):
        self._notes.note("end", args, kwargs)

    def start_trace(self, trace_id=None):
        self._notes.note("trace", trace_id)

    def end_trace(self, *args, **kwargs):
        self._notes.note("end of trace", args, kwargs)


class LlamaIndexRecorder(Recorder):
    def __init__(self):
        self._spans, self._events, self._callbacks = Notes(), Notes(), Notes()

    @contextmanager
    def recording(self):
        events = [*root_dispatcher.event_handlers, Discreet(_Events(notes=self._events))]
        spans = [*root_dispatcher.span_handlers, Discreet(_Spans(self._spans))]
        callbacks = Discreet(_Callbacks(self._callbacks))
        with (
            mock.patch.object(llama_index.core, "global_handler", callbacks),
            mock.patch.object(Settings, "_callback_manager", None),
            mock.patch.object(root_dispatcher, "event_handlers", events),
            mock.patch.object(root_dispatcher, "span_handlers", spans),
        ):
            yield

    def read(self):
        return {
            "LlamaIndex spans": self._spans.text(),
            "LlamaIndex events": self._events.text(),
            "LlamaIndex callbacks": self._callbacks.text(),
        }
