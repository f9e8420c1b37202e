"""Blocks of calls at a smaller epsilon, for a subject, or unrecorded: calls have no config."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

import dp_middleware as dp
from dp_middleware import _quiet
from dp_middleware.conversation.events import checked_epsilon
from dp_middleware.errors import ParameterError
from dp_middleware.models.recorders import refuse_recorders

Method = TypeVar("Method", bound=Callable[..., Any])

_epsilon: ContextVar[float] = ContextVar("llama_index_dp_middleware_epsilon", default=math.inf)
_subject: ContextVar[str | None] = ContextVar("llama_index_dp_middleware_subject", default=None)


@contextmanager
def epsilon(value: float) -> Iterator[None]:
    """Lets all components in this block release at this epsilon, or at their own if smaller.

    ``value``: nats per token occurrence, public. Of nested blocks the smallest holds. What was
    released at another epsilon is released and charged again. Tasks that begin in the block and
    ``asyncio.to_thread`` belong to it, **other threads** do not: give them ``session.at(value)``. A
    call raises NotPrepared where the epsilon takes a search first.
    """
    with _set(_epsilon, min(checked_epsilon(value), _epsilon.get())):
        yield


@contextmanager
def subject(name: str) -> Iterator[None]:
    """Charges all releases in this block to a subject; others share none of them.

    Of nested blocks the innermost holds. A ``dp.VectorResponse`` keeps its own subject. Threads and
    tasks as for :func:`epsilon`. The name is told by who is logged in, never by what a user sends.
    """
    asked: object = name
    if not isinstance(asked, str) or not asked.strip():
        raise ParameterError("expected the name of a subject, a str that is not empty")
    with _set(_subject, name):
        yield


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def in_block(session: dp.Session) -> dp.Session:
    """Returns the session at the block's epsilon and for its subject."""
    value, name = _epsilon.get(), _subject.get()
    if value < session.sanitizer.certificate.epsilon:
        session = session.prepared_at(value)
    return session if name is None else session.for_subject(name)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Keeps what runs in this block from LlamaIndex's recorders, from tracers and vendors' logs.

    For what stands above a component and records raw text itself: an agent, a workflow, an
    ingestion pipeline, a query engine over a raw index. Await, read streams and shut down inside
    the block: it holds for its context and the tasks that it makes. Call :func:`quiet_recorders`
    once before: a recorder that was not made discreet raises ParameterError.
    """
    refuse_recorders()
    with _quiet.unrecorded():
        yield


def unspanned(method: Method) -> Method:
    """Marks a method that takes raw text as one that has a span: LlamaIndex puts none around it."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method
