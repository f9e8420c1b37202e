"""What every chat model is reduced to."""
# ruff: noqa: D102 - the calls are documented in Adapter

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextvars import Context
from typing import Any

from dp_middleware._quiet import await_unrecorded, call_unrecorded, in_thread, pieces_unrecorded
from dp_middleware.errors import ChatError

Messages = list[dict[str, str]]


class AdapterError(ChatError):
    """Raised by adapters themselves: unlike a vendor's, its message may be passed on."""


class Adapter(ABC):
    """A chat model as a few calls. They raise whatever the model raises."""

    @abstractmethod
    def ask(self, messages: Messages) -> str:
        """The whole answer."""

    async def aask(self, messages: Messages) -> str:
        """The whole answer, without blocking the event loop."""
        return await in_thread(self.ask, messages)

    async def amany(self, messages: Messages, count: int) -> list[str] | None:
        """Answers to one call that asks for ``count``; fewer or more may come, and blank ones.

        ``None``: the model has no such call, and nothing was sent.
        """
        return None

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        """The answer in pieces; one piece if the model does not stream."""
        yield self.ask(messages)

    def private(self) -> Adapter:
        """The same model for private text: nothing is recorded that has a switch of its own."""
        return self


class Unrecorded(Adapter):
    """Runs another adapter's calls in a fresh context, where tracers are told to record nothing."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner.private()

    def ask(self, messages: Messages) -> str:
        return call_unrecorded(Context(), self._inner.ask, messages)

    async def aask(self, messages: Messages) -> str:
        return await await_unrecorded(self._inner.aask, messages)

    async def amany(self, messages: Messages, count: int) -> list[str] | None:
        return await await_unrecorded(self._inner.amany, messages, count)

    def chunks(self, messages: Messages) -> Generator[str, None, None]:
        context = Context()
        pieces = call_unrecorded(context, self._inner.chunks, messages)
        yield from pieces_unrecorded(context, pieces)

    def private(self) -> Adapter:
        return self


def text_of(content: Any) -> str:
    """The text of an answer: a string, nothing, or a list of blocks whose text is joined.

    Raises:
        AdapterError: Anything else; names its type.
    """
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
