"""Calls that leave no record in tracers or vendors' logs, on whichever threads they run."""

from __future__ import annotations

import asyncio
import functools
import logging
import sysconfig
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar
from multiprocessing.pool import Pool
from pathlib import PurePath
from threading import RLock, Thread
from typing import Any, ParamSpec, TypeVar

from dp_middleware import _redirects

P = ParamSpec("P")
T = TypeVar("T")

# Packages that write requests, answers or error bodies to their logs, by prefix of their name.
_VENDORS = (
    "anthropic", "cerebras", "cohere", "groq", "http", "huggingface_hub", "langchain",
    "langgraph", "langsmith", "litellm", "llama_cpp", "llama_index", "mistralai", "ollama",
    "openai", "tenacity", "together", "transformers", "urllib3", "vllm",
)  # fmt: skip
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_PACKAGES = {"site-packages", "dist-packages"}  # those of the system are beside a venv's

_PATCHED = "__dp_middleware_unrecorded__"
_patching = RLock()  # a finalizer may make an unrecorded call anywhere
_unrecorded: ContextVar[bool] = ContextVar("dp_middleware_unrecorded", default=False)


def call_unrecorded(context: Context, function: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
    """Call a function unrecorded, in ``context``.

    Give a fresh ``Context()``: it has no callback, parent run or span to inherit. Hand the same
    one to all steps of one iteration.
    """
    return context.run(_quietly, function, *args, **kw)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Nothing in this block is traced by LangSmith, logged by vendors or dispatched.

    A request that has a body follows no redirect, whatever HTTP client it is made with.
    This holds for tasks and threads that are started in it, to their end, and for what it hands to
    the standard library's pools of threads and processes. Not reached: threads that wait for work
    of a queue of their own, and processes that are started with another method than ``fork``.
    """
    _watch()
    token = _unrecorded.set(True)
    try:
        with _untraced():
            yield
    finally:
        _unrecorded.reset(token)


def is_unrecorded() -> bool:
    """Whether the calling code runs inside :func:`unrecorded`."""
    return _unrecorded.get()


def wrap_once(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace a method by ``wrapper(method)``, unless that was done."""
    if _is_wrapped(getattr(owner, name)):
        return
    with _patching:
        original = getattr(owner, name)
        if not _is_wrapped(original):
            wrapped = wrapper(original)
            setattr(wrapped, _PATCHED, _unrecorded)
            setattr(owner, name, wrapped)


def _is_wrapped(method: Any) -> bool:
    """By this module: one that was imported before it anew knows of other calls."""
    return getattr(method, _PATCHED, None) is _unrecorded


def _quietly(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    with unrecorded():
        return function(*args, **kwargs)


def _watch() -> None:
    """Wrap where records are made and threads begin; outside of unrecorded calls nothing changes.

    Filters would not do: loggers and handlers may come into being during the call, and a filter of
    a logger is not asked for records of those below it. Where records are handed on is wrapped as
    well, for loggers with a ``handle`` of their own.
    """
    wrap_once(logging.Logger, "handle", _dropping)
    wrap_once(logging.Logger, "callHandlers", _dropping)
    wrap_once(BaseEventLoop, "create_task", _finishing_quietly)
    wrap_once(Thread, "start", _starting_quietly)
    for pool in (ThreadPoolExecutor, ProcessPoolExecutor):
        wrap_once(pool, "submit", _working_quietly)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        wrap_once(Pool, name, _working_quietly)
    for kind, following in _redirects.clients():
        staying = functools.partial(
            _redirects.staying, following=following, is_private=is_unrecorded
        )
        wrap_once(kind, following.name, staying)


def _dropping(handle: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(handle)
    def wrapped(logger: logging.Logger, record: logging.LogRecord) -> None:
        is_quiet = is_unrecorded() or (record.name == "asyncio" and _is_quiet_step())
        if not (is_quiet and _is_vendors(record)):
            handle(logger, record)

    return wrapped


def _is_quiet_step() -> bool:
    """Whether an event loop, which says in its debug mode what was slow, ran an unrecorded step."""
    handle = getattr(asyncio._get_running_loop(), "_current_handle", None)
    context = getattr(handle, "_context", None)
    return context is not None and context.get(_unrecorded, False)


def _is_vendors(record: logging.LogRecord) -> bool:
    """Written by a vendor's logger, by any installed package or by ``warnings``."""
    is_installed = record.pathname.startswith(_INSTALLED)
    is_named = record.name.startswith(_VENDORS)
    return is_named or is_installed or bool(_PACKAGES & {*PurePath(record.pathname).parts})


def _finishing_quietly(create_task: Callable[..., asyncio.Task[Any]]) -> Callable[..., Any]:
    """What is lost of an unrecorded task is not logged: asyncio quotes results and errors."""

    @functools.wraps(create_task)
    def wrapped(*args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task = create_task(*args, **kwargs)
        if is_unrecorded():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.add_done_callback(_taken)
        return task

    return wrapped


def _taken(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _starting_quietly(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def wrapped(thread: Thread) -> None:
        if is_unrecorded():
            run = thread.run

            def quiet_run() -> None:
                thread.__dict__.pop("run", None)  # a thread that refers to itself is kept for long
                _quietly(run)

            thread.run = quiet_run  # type: ignore[method-assign]
        start(thread)

    return wrapped


def _working_quietly(submit: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(submit)
    def wrapped(pool: Any, /, *args: Any, **kwargs: Any) -> T:
        if not is_unrecorded():
            return submit(pool, *args, **kwargs)
        function, *rest = args or [kwargs.pop("func")]
        work = functools.partial(_quietly, function)
        # A thread that this starts is for others too.
        return Context().run(submit, pool, work, *rest, **kwargs)

    return wrapped


def _untraced() -> AbstractContextManager[Any]:
    tracing = _langsmith()
    return nullcontext() if tracing is None else tracing(enabled=False, parent=False)


@functools.lru_cache(maxsize=1)
def _langsmith() -> Any:
    """LangSmith's switch if it is installed: its tracing may be turned on by the environment."""
    try:
        from langsmith import tracing_context
    except ImportError:
        return None
    return tracing_context
