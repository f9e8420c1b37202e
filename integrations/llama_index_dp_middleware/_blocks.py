"""Blocks of calls at a smaller epsilon or for a subject: LlamaIndex has no config of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import dp_middleware as dp
from dp_middleware.errors import ParameterError

_epsilon: ContextVar[float] = ContextVar("llama_index_dp_middleware_epsilon", default=math.inf)
_subject: ContextVar[str | None] = ContextVar("llama_index_dp_middleware_subject", default=None)


@contextmanager
def epsilon(value: float) -> Iterator[None]:
    """Lets all components in this block release at this epsilon, or at their own if smaller.

    Of nested blocks the smallest epsilon holds. What was released at another epsilon is released
    and charged again. Tasks that begin in the block and threads of ``asyncio.to_thread`` belong to
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
    number: object = value
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not (is_number and 0 < value < math.inf):
        shown = number if isinstance(number, int | float) else type(number).__name__
        raise ParameterError(f"expected epsilon > 0 and finite, got {shown}")
    token = _epsilon.set(min(float(value), _epsilon.get()))
    try:
        yield
    finally:
        _epsilon.reset(token)


@contextmanager
def subject(name: str) -> Iterator[None]:
    """Charges all releases in this block to a subject.

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


def in_block(session: dp.Session) -> dp.Session:
    """Returns the session at the block's epsilon and for its subject."""
    value, name = _epsilon.get(), _subject.get()
    if value < session.sanitizer.certificate.epsilon:
        session = session.prepared_at(value)
    return session if name is None else session.for_subject(name)
