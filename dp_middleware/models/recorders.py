"""What LlamaIndex hands to recorders: refused in private calls, unless they were made discreet."""

from __future__ import annotations

from typing import Any

from dp_middleware._quiet import is_unrecorded
from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import IN_PROCESS

_TOLD = (
    *("handle", "span_enter", "span_exit", "span_drop"),
    *("on_event_start", "on_event_end", "start_trace", "end_trace"),
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
        if name not in _TOLD:
            return value
        return lambda *args, **kwargs: None if is_unrecorded() else value(*args, **kwargs)

    async def ahandle(self, event: Any, **kwargs: Any) -> Any:
        """Hands on an event of a call that is not private."""
        return None if is_unrecorded() else await self._handler.ahandle(event, **kwargs)


def quiet_recorders(*managers: Any) -> None:
    """Makes all handlers discreet that LlamaIndex has by now: they skip private calls only.

    Call it once, when your tracing is set up. Covers the handlers of dispatchers, of
    ``Settings.callback_manager`` and of ``managers``, those of components with one of their own.
    """
    import llama_index.core as core

    for dispatcher in _dispatchers():
        dispatcher.event_handlers = [*map(_discreet, dispatcher.event_handlers)]
        dispatcher.span_handlers = [*map(_discreet, dispatcher.span_handlers)]
    for manager in (*managers, core.Settings.callback_manager):
        manager.set_handlers([*map(_discreet, manager.handlers)])
    if core.global_handler is not None:
        core.global_handler = _discreet(core.global_handler)


def refuse_dispatched(*others: Any) -> None:
    """Raises ParameterError if a handler of spans or events would be told of private calls."""
    told = [x for d in _dispatchers() for x in (*d.event_handlers, *d.span_handlers)]
    kinds = {type(handler) for handler in (*told, *others)} - {Discreet}
    names = sorted(kind.__name__ for kind in kinds if not kind.__name__.startswith("Null"))
    if names:
        raise Recorded(
            f"expected no recorder of LlamaIndex in a private call, got {', '.join(names)}; call "
            "llama_index_dp_middleware.quiet_recorders() once, when tracing is set up: it keeps "
            "private calls from them and no others"
        )


def refuse_recorders() -> None:
    """Raises ParameterError as :func:`refuse_dispatched`, or if a global handler would be told."""
    import llama_index.core as core

    manager, handler = core.Settings._callback_manager, core.global_handler
    refuse_dispatched(*(manager.handlers if manager else ()), *([handler] if handler else ()))


def _dispatchers() -> list[Any]:
    from llama_index_instrumentation import root_manager

    return [*root_manager.dispatchers.values()]


def _discreet(handler: Any) -> Any:
    return handler if isinstance(handler, Discreet) else Discreet(handler)
