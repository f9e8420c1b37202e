"""The trace-safe contract as a pytest suite, for adapters here and elsewhere."""

from support.contract._openai_wire import ToolCall
from support.contract.calls import fallback_calls, result_of, runnable_calls, typed_event_calls
from support.contract.contract import TraceSafeContract
from support.contract.openai_server import OpenAIServer
from support.contract.probe import Probe

__all__ = [
    "OpenAIServer",
    "Probe",
    "ToolCall",
    "TraceSafeContract",
    "fallback_calls",
    "result_of",
    "runnable_calls",
    "typed_event_calls",
]
