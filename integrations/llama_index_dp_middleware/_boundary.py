"""Where private text becomes released text: plain calls that no span of LlamaIndex encloses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

import dp_middleware as dp
from dp_middleware.errors import DPMiddlewareError, ParameterError

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


def session_of(session: object) -> dp.Session:
    """The session itself, or a new one around a sanitizer.

    Raises:
        ParameterError: Neither of the two.
    """
    if isinstance(session, dp.Session):
        return session
    if isinstance(session, dp.Sanitizer):
        return dp.Session(session)
    raise ParameterError(f"expected a dp.Session or dp.Sanitizer, got {type(session).__name__}")


def unspanned(method: Method) -> Method:
    """Mark a method that takes raw text, so that LlamaIndex makes no span of it.

    Spans are put around methods when a class is created, and hold all arguments and the result;
    methods that have one already are left alone.
    """
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


def guarded(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call what handles raw text; errors that leave hold none of it.

    Raises:
        DPMiddlewareError: Ours as it is, of others the type only. No cause, context or traceback.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:
        failed = _textless(error)
    raise _bare(failed)


async def aguarded(function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """As :func:`guarded`, for a coroutine function."""
    try:
        return await function(*args, **kwargs)
    except Exception as error:
        failed = _textless(error)
    raise _bare(failed)


def _bare(error: Exception) -> Exception:
    """Without what came before it, which may quote the text; to be raised outside of ``except``."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _textless(error: Exception) -> Exception:
    """Whatever a ledger, a device or a retriever raises may quote the text."""
    if isinstance(error, DPMiddlewareError):
        return error
    kind = type(error).__name__
    return DPMiddlewareError(f"a step on private text failed with {kind}; nothing was sent")
