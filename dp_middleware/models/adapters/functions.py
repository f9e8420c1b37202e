"""A function of your own, sync or async: messages in, text out."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from dp_middleware._quiet import in_thread
from dp_middleware.models import bridge
from dp_middleware.models.adapters.base import Adapter, AdapterError, Messages


class FunctionAdapter(Adapter):
    """Calls a function that returns the answer, or an awaitable of it."""

    def __init__(self, function: Callable[[Messages], Any]) -> None:
        self._function = function
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def ask(self, messages: Messages) -> str:
        answer = self._function(messages)
        return _text(bridge.run(_awaited(answer)) if inspect.isawaitable(answer) else answer)

    async def aask(self, messages: Messages) -> str:
        if self._is_async:
            return _text(await self._function(messages))
        answer = await in_thread(self._function, messages)
        return _text(await answer if inspect.isawaitable(answer) else answer)


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        raise AdapterError(f"expected an answer of type str, got {type(answer).__name__}")
    return answer
