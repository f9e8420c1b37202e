"""Keeping what agents know out of traces: a refusal, and a place where nothing is traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackManager, CallbackManager, manager
from langchain_core.runnables import Runnable, ensure_config
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.event_stream import _AstreamEventsCallbackHandler

from dp_middleware.errors import ParameterError
from dp_middleware.unrecorded import recording
from dp_middleware.unrecorded.carrying import carry
from langchain_dp_middleware._notes import Noting

_REMEDY = (
    "call the agent inside `with untraced():` and without callbacks, or declare with "
    'traced="allow" that these may record private text'
)


def refuse_recorders(name: str) -> None:
    """Raise if anything records the run in which this is called.

    Raises:
        ParameterError: Names the classes of what records.
    """
    from langsmith.run_helpers import get_current_run_tree

    recorders = _recorders(ensure_config().get("callbacks"))
    if get_current_run_tree() is not None:
        recorders.append("LangSmith")
    if recorders:
        raise ParameterError(
            f"expected no tracer of {name}'s run, which holds private text, got "
            f"{', '.join(recorders)}; {_REMEDY}"
        )


@contextmanager
def untraced() -> Iterator[None]:
    """Nothing that begins in this block is recorded by LangChain, LangSmith or vendors' logs.

    For agents, whose state is private: ``with untraced(): agent.invoke(...)``. Holds, to their end,
    for what is called in the block, threads that start in it, work that it hands to pools, tasks
    and coroutines that it makes, and streams, wherever they are read. It switches off LangSmith,
    handlers of context variables and of the environment, ``set_debug``, handlers that models and
    tools were made with, and what the run around the block would hand down. Callbacks that are
    given to a call in the block are called.

    Raises:
        ParameterError: A handler remains that an instrumentor puts into every call. Names its
            class.
    """
    with quiet():
        if recorders := _recorders(CallbackManager([])):
            raise ParameterError(
                f"expected no handler in every call of LangChain, got {', '.join(recorders)}, "
                "which would record private text; take out what puts it there"
            )
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """As :func:`untraced`, without its refusal: a handler that is put into every call remains."""
    recording.watch(_watch)
    token = var_child_runnable_config.set(None)
    try:
        with recording.unrecorded():
            yield
    finally:
        var_child_runnable_config.reset(token)


def _watch() -> None:
    recording.wrap_once(manager, "_configure", _adding_none)
    carry(Runnable)


def _adding_none(configure: Callable[..., Any]) -> Callable[..., Any]:
    """In unrecorded calls a run has the handlers that it inherits or was given, and no other."""

    @functools.wraps(configure)
    def wrapped(kind: type, inherited: Any = None, local: Any = None, *args: Any, **kw: Any) -> Any:
        if not recording.is_unrecorded():
            return configure(kind, inherited, local, *args, **kw)
        configured = configure(kind, inherited, None, *args, **kw)
        kept = _handlers(inherited)
        for handler in [*configured.handlers]:
            if handler not in kept:
                configured.remove_handler(handler)
        return configured

    return wrapped


def _recorders(callbacks: Any) -> list[str]:
    """Class names of handlers, but for those that carry a stream to its caller or record nothing.

    An event stream starts before the run, and only in ``untraced()`` is there no other recorder.
    """
    harmless: list[type] = [Noting]
    if recording.is_unrecorded():
        harmless.append(_AstreamEventsCallbackHandler)
    kinds = {type(handler) for handler in _handlers(callbacks)} - {*harmless}
    return sorted(kind.__name__ for kind in kinds if not kind.__module__.startswith("langgraph."))


def _handlers(callbacks: Any) -> list[Any]:
    return callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks or []
