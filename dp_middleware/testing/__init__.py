"""The trace-safe contract as a pytest suite, for adapters here and elsewhere. Needs pytest."""

from __future__ import annotations

from dp_middleware.errors import MissingExtra

try:
    import pytest  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("pytest", "testing") from None

from dp_middleware.testing._openai_wire import ToolCall
from dp_middleware.testing.calls import (
    fallback_calls,
    result_of,
    runnable_calls,
    typed_event_calls,
)
from dp_middleware.testing.contract import TraceSafeContract
from dp_middleware.testing.memories import memory_calls
from dp_middleware.testing.openai_server import OpenAIServer
from dp_middleware.testing.probe import Probe

__all__ = [
    "OpenAIServer",
    "Probe",
    "ToolCall",
    "TraceSafeContract",
    "fallback_calls",
    "memory_calls",
    "result_of",
    "runnable_calls",
    "typed_event_calls",
]
