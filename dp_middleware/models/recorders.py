"""What LlamaIndex hands to recorders: refused in private calls, unless they were made discreet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_middleware._quiet import is_unrecorded
from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import IN_PROCESS

_TOLD = frozenset(
    {
        *("handle", "span_enter", "span_exit", "span_drop"),
        *("on_event_start", "on_event_end", "start_trace", "end_trace"),
    }
)


class Recorded(ParameterError):
    """A recorder would be told of a private call. Its message holds no text."""


class Discreet:
    """Stands for a handler of spans, events or callbacks; hands on nothing of private calls."""

    location = IN_PROCESS

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._handler, name)
        return _unless_private(value) if name in _TOLD else value

    async def ahandle(self, event: Any, **kwargs: Any) -> Any:
        """Hands on an event of a call that is not private."""
        return None if is_unrecorded() else await self._handler.ahandle(event, **kwargs)


def quiet_recorders(*managers: Any) -> None:
    """Makes all handlers discreet that LlamaIndex has by now: they skip private calls only.

    Call it once, when your tracing is set up. It puts a :class:`Discreet` in the place of each
    handler, in the lists of dispatchers, of ``Settings.callback_manager`` and of ``managers``,
    those of components that have one of their own.
    """
    import llama_index.core

    for dispatcher in _dispatchers():
        dispatcher.event_handlers = [_discreet(x) for x in dispatcher.event_handlers]
        dispatcher.span_handlers = [_discreet(x) for x in dispatcher.span_handlers]
    for manager in (*managers, llama_index.core.Settings.callback_manager):
        manager.set_handlers([_discreet(x) for x in manager.handlers])
    if llama_index.core.global_handler is not None:
        handler: Any = _discreet(llama_index.core.global_handler)
        llama_index.core.global_handler = handler


def refuse_dispatched() -> None:
    """Raises ParameterError if a handler of spans or events would be told of private calls."""
    _refuse([x for d in _dispatchers() for x in (*d.event_handlers, *d.span_handlers)])


def refuse_recorders() -> None:
    """Raises ParameterError as :func:`refuse_dispatched`, or if a global handler would be told."""
    import llama_index.core

    refuse_dispatched()
    manager = llama_index.core.Settings._callback_manager
    handler = llama_index.core.global_handler
    _refuse([*(manager.handlers if manager else ()), *([handler] if handler else ())])


def _dispatchers() -> list[Any]:
    from llama_index_instrumentation import root_manager

    return [*root_manager.dispatchers.values()]


def _refuse(handlers: list[Any]) -> None:
    kinds = {type(handler) for handler in handlers} - {Discreet}
    names = sorted(kind.__name__ for kind in kinds if not kind.__name__.startswith("Null"))
    if names:
        raise Recorded(
            f"expected no recorder of LlamaIndex in a private call, got {', '.join(names)}; call "
            "llama_index_dp_middleware.quiet_recorders() once, when tracing is set up: it keeps "
            "private calls from them and no others"
        )


def _discreet(handler: Any) -> Any:
    return handler if isinstance(handler, Discreet) else Discreet(handler)


def _unless_private(told: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: None if is_unrecorded() else told(*args, **kwargs)
