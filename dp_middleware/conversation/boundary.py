"""For adapters: the session they release with, and calls on private text whose errors hold none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from dp_middleware.errors import DPMiddlewareError, ParameterError
from dp_middleware.sanitizers.sanitizer import Sanitizer
from dp_middleware.conversation.session import Session

T = TypeVar("T")


def session_of(releaser: object) -> Session:
    """The session of an adapter: the one that it is made with, or a new one of a sanitizer.

    Pseudonyms make their own.

    Raises:
        ParameterError: Neither of the two.
    """
    if isinstance(releaser, Session):
        return releaser
    if isinstance(releaser, Sanitizer):
        return Session(releaser)
    make: Any = getattr(releaser, "session", None)
    if callable(make) and isinstance(own := make(), Session):
        return own
    raise ParameterError(f"expected a dp.Session or a dp.Sanitizer, got {type(releaser).__name__}")


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

    Args:
        work: The function.
        args: Its arguments.
        what: Names the step in the message.

    Raises:
        DPMiddlewareError: It failed: ours as it is, of others the type only. Has no cause and no
            context: these may quote.
    """
    try:
        return work(*args)
    except Exception as error:
        textless = _without_text(error, what)
    raise textless.with_traceback(None)


async def aguarded(work: Callable[..., Awaitable[T]], *args: Any, what: str = "the release") -> T:
    """As :func:`guarded`, for a coroutine function."""
    try:
        return await work(*args)
    except Exception as error:
        textless = _without_text(error, what)
    raise textless.with_traceback(None)


def _without_text(error: Exception, what: str) -> DPMiddlewareError:
    """Whatever a ledger, a device or a retriever raises may quote the text."""
    if not isinstance(error, DPMiddlewareError):
        return DPMiddlewareError(f"{what} failed with {type(error).__name__}; nothing was sent")
    error.__cause__ = error.__context__ = None
    return error
