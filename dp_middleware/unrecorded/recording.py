"""Calls that leave no record in tracers or vendors' logs, on whichever threads they run."""

from __future__ import annotations

import _thread
import asyncio
import functools
import logging
import sys
import sysconfig
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar
from multiprocessing.pool import Pool
from multiprocessing.process import BaseProcess
from pathlib import PurePath
from threading import RLock, Thread
from typing import Any, ParamSpec, TypeVar

from dp_middleware.unrecorded import redirects

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
_watches: dict[Callable[[], None], None] = {}
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
    This holds for tasks, threads and ``multiprocessing``'s processes that are started in it, to
    their end, and for what it hands to the standard library's pools of threads and processes. Not
    reached: threads that wait for work of a queue of their own, threads that do not begin with
    ``threading`` or ``_thread.start_new_thread``, looked up there, and other programs.
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


def watch(how: Callable[[], None]) -> None:
    """Wrap what a framework records with, here and in processes that do unrecorded work.

    Args:
        how: A module's function, which may be called again.
    """
    how()
    _watches[how] = None


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
    for loop in (BaseEventLoop, getattr(sys.modules.get("uvloop"), "Loop", BaseEventLoop)):
        wrap_once(loop, "create_task", _finishing_quietly)
    wrap_once(Thread, "start", _starting_quietly)
    wrap_once(_thread, "start_new_thread", _beginning_quietly)
    wrap_once(BaseProcess, "start", _launching_quietly)
    for pool in (ThreadPoolExecutor, ProcessPoolExecutor):
        wrap_once(pool, "submit", _working_quietly)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        wrap_once(Pool, name, _working_quietly)
    for kind, following in redirects.clients():
        staying = functools.partial(
            redirects.staying, following=following, is_private=is_unrecorded
        )
        wrap_once(kind, following.name, staying)


def _dropping(handle: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(handle)
    def wrapped(logger: logging.Logger, record: logging.LogRecord) -> None:
        is_quiet = is_unrecorded() or (record.name == "asyncio" and _is_quiet_step(record))
        if not (is_quiet and _is_vendors(record)):
            handle(logger, record)

    return wrapped


def _is_quiet_step(record: logging.LogRecord) -> bool:
    """Whether an event loop, which says in its debug mode what was slow, ran an unrecorded step.

    One that does not tell which step it ran, as uvloop, may have.
    """
    loop = asyncio._get_running_loop()
    if loop is not None and not hasattr(loop, "_current_handle"):
        return str(record.msg).startswith("Executing ")
    context = getattr(getattr(loop, "_current_handle", None), "_context", None)
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


def _beginning_quietly(start_new_thread: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(start_new_thread)
    def wrapped(function: Callable[..., None], /, *given: Any) -> int:
        work = functools.partial(_quietly, function) if is_unrecorded() else function
        return start_new_thread(work, *given)

    return wrapped


def _launching_quietly(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def wrapped(process: BaseProcess) -> None:
        if not is_unrecorded():
            return start(process)
        process.run = _Quiet(process.run)  # type: ignore[method-assign]
        try:
            return start(process)
        finally:
            process.__dict__.pop("run", None)  # its parent has no use for it

    return wrapped


def _working_quietly(submit: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(submit)
    def wrapped(pool: Any, /, *args: Any, **kwargs: Any) -> T:
        if not is_unrecorded():
            return submit(pool, *args, **kwargs)
        function, *rest = args or [kwargs.pop("func")]
        # A thread that this starts is for others too.
        return Context().run(submit, pool, _Quiet(function), *rest, **kwargs)

    return wrapped


class _Quiet:
    """Unrecorded work. Where another process unpickles it, that watches what this one does."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _quietly(self._work, *args, **kwargs)

    def __reduce__(self) -> Any:
        return _arrived, (self._work, *_watches)


def _arrived(work: Callable[..., Any], *watches: Callable[[], None]) -> Callable[..., Any]:
    for each in watches:
        watch(each)
    # A process that was forked in some run has that run's callbacks to hand down.
    return functools.partial(call_unrecorded, Context(), work)


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
