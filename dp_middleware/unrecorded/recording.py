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
from contextlib import contextmanager, nullcontext
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
    This holds for tasks, threads and ``multiprocessing``'s processes that the block starts, until
    they end, and for work that it hands to the standard library's pools of threads and processes.
    It does not hold for threads that take work from a queue of their own, for threads that begin
    otherwise than by ``threading`` or ``_thread.start_new_thread``, looked up there, or for other
    programs.
    """
    _watch()
    token = _unrecorded.set(True)
    try:
        with _tracing()(enabled=False, parent=False):
            yield
    finally:
        _unrecorded.reset(token)


def is_unrecorded() -> bool:
    """Whether the calling code runs inside :func:`unrecorded`."""
    return _unrecorded.get()


def watch(wrap: Callable[[], None]) -> None:
    """Wrap a framework's recorders, in this process and in those that do its unrecorded work.

    Args:
        wrap: Wraps them. A module's function, which may be called again.
    """
    wrap()
    _watches[wrap] = None


def wrap_once(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace a method by ``wrapper(method)``, unless this was done before."""
    if _is_wrapped(getattr(owner, name)):
        return
    with _patching:
        original = getattr(owner, name)
        if not _is_wrapped(original):
            wrapped = wrapper(original)
            setattr(wrapped, _PATCHED, _unrecorded)
            setattr(owner, name, wrapped)


def around(handler: Callable[..., T]) -> Callable[[Callable[..., Any]], Callable[..., T]]:
    """Make a wrapper for :func:`wrap_once`: it calls ``handler(method, *args, **kwargs)``."""

    def wrapper(method: Callable[..., Any]) -> Callable[..., T]:
        @functools.wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> T:
            return handler(method, *args, **kwargs)

        return wrapped

    return wrapper


def _is_wrapped(method: Any) -> bool:
    """Whether this very module wrapped it: a second import of the module has calls of its own."""
    return getattr(method, _PATCHED, None) is _unrecorded


def _quietly(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    with unrecorded():
        return function(*args, **kwargs)


def _watch() -> None:
    """Wrap the methods that write logs and start threads; recorded calls run as they did.

    Filters would not do: a call may create loggers and handlers, and the filter of a logger does
    not see the records of loggers below it. ``callHandlers`` is for loggers with a ``handle`` of
    their own.
    """
    wrap_once(logging.Logger, "handle", _drop)
    wrap_once(logging.Logger, "callHandlers", _drop)
    for loop in (BaseEventLoop, getattr(sys.modules.get("uvloop"), "Loop", BaseEventLoop)):
        wrap_once(loop, "create_task", _create_task)
    wrap_once(Thread, "start", _start_thread)
    wrap_once(_thread, "start_new_thread", _start_new_thread)
    wrap_once(BaseProcess, "start", _start_process)
    for pool in (ThreadPoolExecutor, ProcessPoolExecutor):
        wrap_once(pool, "submit", _submit)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        wrap_once(Pool, name, _submit)
    for client, following in redirects.clients():
        stay = functools.partial(redirects.stay, following=following, is_private=is_unrecorded)
        wrap_once(client, following.name, around(stay))


@around
def _drop(handle: Callable[..., None], logger: logging.Logger, record: logging.LogRecord) -> None:
    is_quiet = is_unrecorded() or (record.name == "asyncio" and _is_quiet_step(record))
    if not (is_quiet and _is_vendors(record)):
        handle(logger, record)


def _is_quiet_step(record: logging.LogRecord) -> bool:
    """Whether an event loop, whose debug mode logs slow steps, may have run an unrecorded one.

    uvloop does not tell which step it ran.
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


@around
def _create_task(create: Callable[..., asyncio.Task[Any]], /, *args: Any, **kwargs: Any) -> Any:
    """An unrecorded task that is lost is not logged: asyncio quotes results and errors."""
    task = create(*args, **kwargs)
    if is_unrecorded():
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


@around
def _start_thread(start: Callable[..., None], thread: Thread) -> None:
    if is_unrecorded():
        run = thread.run

        def quiet_run() -> None:
            thread.__dict__.pop("run", None)  # a thread that refers to itself is kept for long
            _quietly(run)

        thread.run = quiet_run  # type: ignore[method-assign]
    start(thread)


@around
def _start_new_thread(
    start: Callable[..., int], function: Callable[..., None], /, *rest: Any
) -> int:
    work = functools.partial(_quietly, function) if is_unrecorded() else function
    return start(work, *rest)


@around
def _start_process(start: Callable[..., None], process: BaseProcess) -> None:
    if not is_unrecorded():
        return start(process)
    process.run = _Quiet(process.run)  # type: ignore[method-assign]
    try:
        return start(process)
    finally:
        process.__dict__.pop("run", None)  # its parent has no use for it


@around
def _submit(submit: Callable[..., T], pool: Any, /, *args: Any, **kwargs: Any) -> T:
    if not is_unrecorded():
        return submit(pool, *args, **kwargs)
    function, *rest = args or [kwargs.pop("func")]
    # A thread that this starts is for others too.
    return Context().run(submit, pool, _Quiet(function), *rest, **kwargs)


class _Quiet:
    """Unrecorded work. A process that unpickles it wraps the same recorders as this one."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _quietly(self._work, *args, **kwargs)

    def __reduce__(self) -> Any:
        return _unpickle, (self._work, *_watches)


def _unpickle(work: Callable[..., Any], *watches: Callable[[], None]) -> Callable[..., Any]:
    for wrap in watches:
        watch(wrap)
    # A process that was forked during a run would hand that run's callbacks down.
    return functools.partial(call_unrecorded, Context(), work)


@functools.lru_cache(maxsize=1)
def _tracing() -> Callable[..., Any]:
    """LangSmith's switch, as the environment may turn tracing on; without LangSmith, no switch."""
    try:
        from langsmith import tracing_context
    except ImportError:
        return lambda **_: nullcontext()
    return tracing_context
