"""Keeps calls on private text out of what tracers and vendors' packages record.

Nothing of the host is replaced: each recorder is told by the means that it offers itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - at the interpreter's exit it would be too late
import functools
import logging
import sys
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import AsyncExitStack, ExitStack, contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

# Packages that write requests, answers or error bodies to their logs, by prefix of their name.
_VENDORS = (
    "aiosqlite", "anthropic", "cerebras", "cohere", "decision_process", "fastembed", "flair",
    "gliner", "groq", "http", "huggingface", "langchain", "langgraph", "langsmith", "litellm",
    "LiteLLM", "llama_cpp", "llama_index", "mistralai", "ollama", "openai", "presidio",
    "py.warnings", "sentence_transformers", "spacy", "sqlalchemy", "stanza", "tenacity",
    "together", "transformers", "urllib3", "vllm", "workflows",
)  # fmt: skip
_END: Any = object()

_unrecorded: ContextVar[bool] = ContextVar("dp_middleware_unrecorded", default=False)


def is_unrecorded() -> bool:
    """Tells whether the calling code runs in :func:`unrecorded`."""
    return _unrecorded.get()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Switches off LangSmith, OpenTelemetry and the logs of named vendors in this block.

    Holds for what is called in it, tasks that it makes and ``asyncio.to_thread``; not for threads,
    pools and processes that take no context along, nor for a generator that runs after its end.
    """
    _filter_loggers()
    telemetry: Any = sys.modules.get("opentelemetry.context")
    key = getattr(telemetry, "_SUPPRESS_INSTRUMENTATION_KEY", None)  # which instrumentors ask for
    with ExitStack() as switches:
        switches.callback(_unrecorded.reset, _unrecorded.set(True))
        switches.enter_context(_langsmith()(enabled=False, parent=False))
        if key is not None:
            switches.callback(telemetry.detach, telemetry.attach(telemetry.set_value(key, True)))
        yield


def call_unrecorded(context: Context, function: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
    """Calls a function in a fresh ``Context()``, the same for all steps of an iteration."""
    return context.run(unrecorded()(function), *args, **kw)


@types.coroutine
def within(context: Context, work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Awaits in a context, but in the caller's task, which cancel scopes and timeouts keep to."""
    steps = work.__await__()
    step, value = steps.send, None
    while True:
        try:
            waiting = context.run(step, value)
        except StopIteration as end:
            return cast(T, end.value)
        try:
            step, value = steps.send, (yield waiting)
        except BaseException as error:
            step, value = cast(Any, steps.throw), error


async def await_unrecorded(call: Callable[P, Awaitable[T]], *args: P.args, **kw: P.kwargs) -> T:
    """Awaits ``call(*args)`` in a fresh context, unrecorded."""
    return await within(Context(), _aquietly(call, *args, **kw))


def pieces_unrecorded(context: Context, pieces: Iterator[T]) -> Generator[T, None, None]:
    """Takes the steps of an iterator in a context, unrecorded, and closes it at the end."""
    try:
        while (piece := call_unrecorded(context, next, pieces, _END)) is not _END:
            yield cast(T, piece)
    finally:
        call_unrecorded(context, closing(pieces).close)


async def apieces_unrecorded(context: Context, pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Does the same for an asynchronous iterator."""
    try:
        while (piece := await within(context, _aquietly(anext, pieces, _END))) is not _END:
            yield piece
    finally:
        await within(context, _aquietly(aclosing(pieces).aclose))


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Works as ``asyncio.to_thread``, whose futures asyncio quotes in its logs; this one's not."""
    kept: list[Any] = []  # a result or an error, where no repr of a future shows it

    def run() -> None:
        try:
            kept.extend((function(*args, **kwargs), None))
        except BaseException as error:
            kept.extend((None, error))

    await asyncio.to_thread(run)
    error, value = kept.pop(), kept.pop()
    try:
        if error is not None:
            raise error
        return cast(T, value)
    finally:
        del error  # it refers to this frame


async def pieces_in_thread(pieces: Generator[T, None, None]) -> AsyncGenerator[T, None]:
    """Yields a generator's items up to ``None``, each step in a thread."""
    try:
        while (piece := await in_thread(next, pieces, None)) is not None:
            yield piece
    finally:
        with suppress(ValueError):  # a step that was given up still runs
            await in_thread(pieces.close)


def closing(pieces: Any) -> ExitStack:
    """Closes a generator at the end of the block; an iterator without ``close`` is left alone."""
    block = ExitStack()
    if hasattr(pieces, "close"):
        block.callback(pieces.close)
    return block


def aclosing(pieces: Any) -> AsyncExitStack:
    """Does the same for an asynchronous generator."""
    block = AsyncExitStack()
    if hasattr(pieces, "aclose"):
        block.push_async_callback(pieces.aclose)
    return block


def fed(
    pieces: Iterator[Any], feed: Callable[[Any], T], close: Callable[[], Iterable[T]]
) -> Generator[T, None, None]:
    """Yields what ``feed`` makes of pieces, then what it held back; closes them at the end."""
    with closing(pieces):
        for piece in pieces:
            yield feed(piece)
        yield from close()


async def afed(
    pieces: AsyncIterator[Any], feed: Callable[[Any], T], close: Callable[[], Iterable[T]]
) -> AsyncGenerator[T, None]:
    """Does the same for an asynchronous generator."""
    async with aclosing(pieces):
        async for piece in pieces:
            yield feed(piece)
        for rest in close():
            yield rest


async def _aquietly(call: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
    with unrecorded():
        return await call(*args, **kwargs)


class _LeaveOut(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "asyncio":
            return not (is_unrecorded() or _is_quiet_step())
        return not (is_unrecorded() and record.name.startswith(_VENDORS))


_LEAVE_OUT = _LeaveOut()


def _filter_loggers() -> None:
    """Puts the filter on the vendors' loggers, and on the root's handlers for those made later."""
    for handler in (*logging.root.handlers, logging.lastResort):
        if handler is not None and _LEAVE_OUT not in handler.filters:
            handler.addFilter(_LEAVE_OUT)
    for name, logger in [*logging.root.manager.loggerDict.items()]:
        is_named = name == "asyncio" or name.startswith(_VENDORS)
        if is_named and isinstance(logger, logging.Logger) and _LEAVE_OUT not in logger.filters:
            logger.addFilter(_LEAVE_OUT)


def _is_quiet_step() -> bool:
    """Tells whether the event loop logs, outside of any context, a step that was unrecorded."""
    handle = getattr(asyncio._get_running_loop(), "_current_handle", None)
    context = getattr(handle, "_context", None)
    return context is not None and context.get(_unrecorded, False)


@functools.lru_cache(maxsize=1)
def _langsmith() -> Callable[..., Any]:
    """LangSmith's switch, as the environment may turn tracing on; without LangSmith, no switch."""
    try:
        from langsmith import tracing_context
    except ImportError:
        return lambda **_: nullcontext()
    return tracing_context
