"""Calls that leave no record in tracers, callbacks, spans or vendors' logs."""

from __future__ import annotations

import functools
import logging
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Packages that write requests, answers or error bodies to their logs, by prefix of their name.
_VENDORS = (
    "anthropic", "cerebras", "cohere", "groq", "http", "huggingface_hub", "langchain",
    "langgraph", "langsmith", "litellm", "llama_cpp", "llama_index", "mistralai", "ollama",
    "openai", "tenacity", "together", "transformers", "urllib3", "vllm",
)  # fmt: skip

_unrecorded: ContextVar[bool] = ContextVar("dp_middleware_unrecorded", default=False)


def call_unrecorded(context: Context, function: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
    """Call a function unrecorded, in ``context``.

    Give a fresh ``Context()``: it has no callback, parent run or span to inherit. Hand the same
    one to all steps of one iteration.
    """
    return context.run(_quietly, functools.partial(function, *args, **kw))


@contextmanager
def unrecorded() -> Iterator[None]:
    """Nothing in this block is traced by LangSmith, logged by vendors or dispatched."""
    _silence_vendor_logs()
    token = _unrecorded.set(True)
    try:
        with _untraced():
            yield
    finally:
        _unrecorded.reset(token)


def is_unrecorded() -> bool:
    """Whether the calling code runs inside :func:`unrecorded`."""
    return _unrecorded.get()


def _quietly(function: Callable[[], T]) -> T:
    with unrecorded():
        return function()


class _RecordedOnly(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not is_unrecorded()


class _OwnCodeOnly(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not (is_unrecorded() and record.pathname.startswith(_INSTALLED))


_recorded_only = _RecordedOnly()
_own_code_only = _OwnCodeOnly()
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


def _silence_vendor_logs() -> None:
    """Vendors' loggers drop records made inside an unrecorded call, and no others.

    So do all handlers, for records written by any installed package or by ``warnings``. Loggers
    and handlers come into being at any time, so this is done at every call; a filter that is
    already there is not added again.
    """
    handlers = set(logging.root.handlers)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            handlers.update(logger.handlers)
            if name.startswith(_VENDORS):
                logger.addFilter(_recorded_only)
    for handler in handlers:
        handler.addFilter(_own_code_only)


def _untraced() -> AbstractContextManager[Any]:
    tracing_context = _langsmith()
    return nullcontext() if tracing_context is None else tracing_context(enabled=False)


@functools.lru_cache(maxsize=1)
def _langsmith() -> Any:
    """LangSmith's switch if it is installed: its tracing may be turned on by the environment."""
    try:
        from langsmith import tracing_context
    except ImportError:
        return None
    return tracing_context
