"""Blocks of calls at a smaller epsilon or for a subject: LlamaIndex has no config of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import dp_middleware as dp
from dp_middleware.errors import ParameterError

_asked: ContextVar[float] = ContextVar("llama_index_dp_middleware_epsilon", default=math.inf)

_subject: ContextVar[str | None] = ContextVar("llama_index_dp_middleware_subject", default=None)


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
        NotPrepared: From a call in the block: this epsilon takes a search first; prepare it by
            ``session.at(value)`` or ``dp-middleware prepare`` when your program starts.
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


@contextmanager
def subject(name: str) -> Iterator[None]:
    """In this block sessions release in the name of a subject, whose budget is charged.

    Conversations of different subjects never share a release, also not with one component. Of
    nested blocks the innermost holds. A ``dp.VectorResponse`` keeps its own subject. Threads and
    tasks as for :func:`epsilon`.

    Args:
        name: Public: told by who is logged in, never by what a user sends.

    Raises:
        ParameterError: No name.

    Example:
        >>> with subject("ann"):  # doctest: +SKIP
        ...     engine.query("the raw question")
    """
    asked: object = name
    if not isinstance(asked, str) or not asked.strip():
        raise ParameterError("expected the name of a subject, a str that is not empty")
    token = _subject.set(name)
    try:
        yield
    finally:
        _subject.reset(token)


def at_asked(session: dp.Session) -> dp.Session:
    """The session at the block's epsilon and for its subject, or as it is outside of one."""
    asked, name = _asked.get(), _subject.get()
    if asked < session.sanitizer.certificate.epsilon:
        session = session.prepared_at(asked)
    return session if name is None else session.for_subject(name)


def _require_epsilon(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        shown = value if isinstance(value, int | float) else type(value).__name__
        raise ParameterError(f"expected epsilon > 0 and finite, got {shown}")
