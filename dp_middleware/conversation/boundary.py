"""Calls on private text whose errors hold none, and what adapters check of their arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from dp_middleware.errors import DPMiddlewareError, ParameterError

T = TypeVar("T")


def public_keys(metadata: Collection[str]) -> tuple[str, ...]:
    """The keys of metadata that are public and kept.

    Raises:
        ParameterError: One string, or not strings.
    """
    if isinstance(metadata, str) or not all(isinstance(key, str) for key in metadata):
        raise ParameterError("expected metadata=['source', ...], names of public keys")
    return tuple(metadata)


def guarded(work: Callable[..., T], *args: Any, what: str = "the release") -> T:
    """The result of a function that handles private text.

    Raises:
        DPMiddlewareError: It failed: ours as it is, of others the type only. Has no cause and no
            context: these may quote.
    """
    try:
        return work(*args)
    except Exception as error:
        textless = without_text(error, what)
    raise textless.with_traceback(None)


async def aguarded(work: Callable[..., Awaitable[T]], *args: Any, what: str = "the release") -> T:
    """As :func:`guarded`, for a coroutine function."""
    try:
        return await work(*args)
    except Exception as error:
        textless = without_text(error, what)
    raise textless.with_traceback(None)


def without_text(error: Exception, what: str, then: str = "nothing was sent") -> DPMiddlewareError:
    """Returns what stands for an exception: what others raise may quote the text."""
    if not isinstance(error, DPMiddlewareError):
        return DPMiddlewareError(f"{what} failed with {type(error).__name__}; {then}")
    error.__cause__ = error.__context__ = None
    return error
