"""What every chat model is reduced to."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any

from dp_middleware._quiet import await_unrecorded, call_unrecorded, in_thread, pieces_unrecorded
from dp_middleware.errors import ChatError
from dp_middleware.models import bridge

Messages = list[dict[str, str]]


class AdapterError(ChatError):
    """Raised by adapters themselves: unlike a vendor's, its message may be passed on."""


class Adapter(ABC):
    """A chat model as a few calls. They raise whatever the model raises."""

    @abstractmethod
    def ask(self, messages: Messages) -> str:
        """Returns the whole answer."""

    async def aask(self, messages: Messages) -> str:
        """Returns the whole answer, without blocking the event loop."""
        return await in_thread(self.ask, messages)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        """Yields the answer in pieces; one piece if the model does not stream."""
        yield self.ask(messages)

    def private(self) -> Adapter:
        """Returns the same model for private text: what has a switch records nothing."""
        return self


class Unrecorded(Adapter):
    """Runs another adapter's calls in a fresh context, where tracers are told to record nothing."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner.private()

    def ask(self, messages: Messages) -> str:
        return call_unrecorded(Context(), self._inner.ask, messages)

    async def aask(self, messages: Messages) -> str:
        return await await_unrecorded(self._inner.aask, messages)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        context = Context()
        pieces = call_unrecorded(context, self._inner.chunks, messages)
        yield from pieces_unrecorded(context, pieces)

    def private(self) -> Adapter:
        return self


def text_of(content: Any) -> str:
    """Returns the text of an answer: a string, nothing, or blocks whose text is joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_block_text(block) for block in content)
    raise AdapterError(f"expected an answer of type str, got {type(content).__name__}")


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    is_text = isinstance(block, dict) and block.get("type") == "text"
    return text_of(block.get("text")) if is_text else ""


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
