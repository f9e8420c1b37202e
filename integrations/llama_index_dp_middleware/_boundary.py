"""Methods that take raw text are plain calls: no span of LlamaIndex encloses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

Method = TypeVar("Method", bound=Callable[..., Any])


def unspanned(method: Method) -> Method:
    """Mark a method that takes raw text, so that LlamaIndex makes no span of it.

    Spans are put around methods when a class is created, and hold all arguments and the result;
    methods that have one already are left alone.
    """
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method
