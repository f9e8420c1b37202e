"""Keeping what agents know out of traces: a refusal, and a place where nothing is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import CallbackManager, StdOutCallbackHandler
from langchain_core.runnables import ensure_config
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers import context as tracers
from langchain_core.tracers.event_stream import _AstreamEventsCallbackHandler
from langchain_core.tracers.log_stream import LogStreamCallbackHandler
from langchain_core.tracers.stdout import ConsoleCallbackHandler
from langsmith.run_helpers import get_current_run_tree

from dp_middleware import _quiet
from dp_middleware.errors import ParameterError
from langchain_dp_middleware._boundary import Noting

_REMEDY = 'call it inside `with untraced():`, or, if they may see raw text, set traced="allow"'


def refuse_recorders(name: str) -> None:
    """Raises if anything records the run in which this is called; names the classes."""
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
    """Keeps what runs in this block from LangChain's handlers, LangSmith and vendors' logs.

    For agents, whose state is private: ``with untraced(): agent.invoke(...)``. Await and read
    streams inside the block: it holds for its context and its copies, such as tasks and LangChain's
    own threads, not for threads and pools of your own. It switches off LangSmith, handlers of
    context variables and of the environment, ``set_debug``, and what the run around the block would
    hand down. Callbacks that a call, a model, a tool or a retriever was given are called.

    Raises:
        ParameterError: A handler remains that an instrumentor puts into every call.
    """
    with quiet():
        if recorders := _recorders(CallbackManager.configure(ensure_config().get("callbacks"))):
            raise ParameterError(
                f"expected no handler in every call of LangChain, got {', '.join(recorders)}, "
                "which would record private text; take out what puts it there"
            )
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Works as :func:`untraced`, without its refusal: a handler put into every call remains."""
    config: Any = {"callbacks": deaf_handlers()}
    variables: list[Any] = [variable for variable, *_ in tracers._configure_hooks]
    variables.append(tracers.tracing_v2_callback_var)
    hooks = [(variable, variable.set(None)) for variable in variables]
    token = var_child_runnable_config.set(config)
    try:
        with _quiet.unrecorded():
            yield
    finally:
        var_child_runnable_config.reset(token)
        for variable, before in reversed(hooks):
            variable.reset(before)


class _Deaf:
    """Ignores everything that LangChain tells handlers of."""

    ignore_llm = ignore_chat_model = ignore_chain = ignore_agent = True
    ignore_retriever = ignore_retry = ignore_custom_event = True


# they stand where ``set_debug`` and ``verbose=True`` would put a handler that prints
_DEAF = [
    type("_Deaf", (_Deaf, kind), {}) for kind in (ConsoleCallbackHandler, StdOutCallbackHandler)
]


def deaf_handlers() -> list[Any]:
    """Makes what a run hands down, so that no handler that prints is put beside it."""
    return [kind() for kind in _DEAF]


def _recorders(callbacks: Any) -> list[str]:
    """Class names of handlers, but for those that record nothing or carry an untraced stream."""
    harmless: list[type] = [Noting, *_DEAF]
    if _quiet.is_unrecorded():
        harmless += [_AstreamEventsCallbackHandler, LogStreamCallbackHandler]
    kinds = {type(handler) for handler in getattr(callbacks, "handlers", callbacks) or ()}
    return sorted(
        kind.__name__
        for kind in kinds.difference(harmless)
        if not kind.__module__.startswith("langgraph.")
    )
