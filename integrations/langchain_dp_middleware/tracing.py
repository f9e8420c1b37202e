"""Keeping what agents know out of traces: a refusal, and a place where nothing is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers import context as hooks
from langchain_core.tracers.event_stream import _AstreamEventsCallbackHandler
from langchain_core.tracers.stdout import ConsoleCallbackHandler

from dp_middleware.errors import ParameterError
from langchain_dp_middleware._notes import Noting

_REMEDY = (
    "call the agent inside `with untraced():` and without callbacks, or declare with "
    'traced="allow" that these may record private text'
)


class SilentHandler(ConsoleCallbackHandler):
    """Where it is, ``set_debug`` adds no handler that prints; it is told nothing itself."""

    ignore_llm = ignore_chat_model = ignore_chain = ignore_agent = True
    ignore_retriever = ignore_retry = ignore_custom_event = True


def refuse_recorders(name: str) -> None:
    """Raise if anything records the run in which this is called.

    Raises:
        ParameterError: Names the classes of what records.
    """
    from langsmith.run_helpers import get_current_run_tree

    found = _recorders(ensure_config())
    if get_current_run_tree() is not None:
        found = [*found, "LangSmith"]
    if found:
        raise ParameterError(
            f"expected no tracer of {name}'s run, which holds private text, got "
            f"{', '.join(found)}; {_REMEDY}"
        )


@contextmanager
def untraced() -> Iterator[None]:
    """Nothing that is called in this block is traced by LangChain or LangSmith.

    For agents, whose state is private: ``with untraced(): agent.invoke(...)``. Holds for the
    thread or task that is in the block and what it starts. It switches off LangSmith, handlers
    set by context variables, ``set_debug``, and what the run around the block would hand down.
    Callbacks that are given to a call in the block are called.

    Raises:
        ParameterError: A handler remains, such as one that an instrumentor puts into every call
            or one set by the environment. Names its class.
    """
    with quiet():
        silent = ensure_config()["callbacks"]
        if found := _recorders({"callbacks": CallbackManager.configure(silent)}):
            raise ParameterError(
                f"expected no handler in every call of LangChain, got {', '.join(found)}, which "
                "would record private text; take out what puts it there"
            )
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """As :func:`untraced`, without its refusal: a handler that is put into every call remains."""
    from langsmith import tracing_context

    with ExitStack() as stack:
        stack.enter_context(tracing_context(enabled=False, parent=False))
        stack.enter_context(
            _set(var_child_runnable_config, RunnableConfig(callbacks=[SilentHandler()]))
        )
        for variable, *_ in hooks._configure_hooks:
            stack.enter_context(_set(variable, None))
        stack.enter_context(_set(hooks.tracing_v2_callback_var, None))
        yield


def _recorders(config: RunnableConfig) -> list[str]:
    """Class names of handlers, but for those that carry a stream to its caller or record nothing.

    An event stream starts before the run, and only in ``untraced()`` is there no other recorder.
    """
    callbacks = config.get("callbacks") or []
    handlers = callbacks if isinstance(callbacks, list) else callbacks.handlers
    harmless: tuple[type, ...] = (SilentHandler, Noting)
    if any(isinstance(each, SilentHandler) for each in handlers):
        harmless = (*harmless, _AstreamEventsCallbackHandler)
    return sorted({type(each).__name__ for each in handlers if not _is_harmless(each, harmless)})


def _is_harmless(handler: Any, kinds: tuple[type, ...]) -> bool:
    return type(handler) in kinds or type(handler).__module__.startswith("langgraph.")


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
