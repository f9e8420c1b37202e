"""A block of calls at a smaller epsilon: LlamaIndex has no configuration of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import dp_middleware as dp
from dp_middleware.errors import ParameterError

_asked: ContextVar[float] = ContextVar("llama_index_dp_middleware_epsilon", default=math.inf)


@contextmanager
def epsilon(value: float) -> Iterator[None]:
    """In this block all components release at this epsilon, or at their own if it is smaller.

    Of nested blocks the smallest epsilon holds. What was released at another epsilon is released
    and charged anew. Tasks that begin in the block and threads of ``asyncio.to_thread`` belong to
    it; **other threads and processes**, such as those of ``num_workers``, do not: give them
    ``session.at(value)``.

    Args:
        value: Nats per token occurrence, a public number.

    Raises:
        ParameterError: Not positive and finite.
        CannotCalibrate: From a call in the block: the mechanism cannot reach this epsilon.

    Example:
        >>> with epsilon(2.0):  # doctest: +SKIP
        ...     engine.query("the raw question")
    """
    _require_epsilon(value)
    token = _asked.set(min(float(value), _asked.get()))
    try:
        yield
    finally:
        _asked.reset(token)


def at_asked(session: dp.Session) -> dp.Session:
    """The session at the block's epsilon, or as it is outside of one or below."""
    asked = _asked.get()
    return session if asked >= session.sanitizer.certificate.epsilon else session.at(asked)


def _require_epsilon(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        shown = value if isinstance(value, int | float) else type(value).__name__
        raise ParameterError(f"expected epsilon > 0 and finite, got {shown}")
