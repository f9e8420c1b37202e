"""The calls of an adapter: the input is released, the rest runs, the answer is restored."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnablePassthrough
from pydantic import BaseModel, Field

from dp_middleware._quiet import afed, fed
from dp_middleware.conversation.exchange import Exchange, Reply, each_in
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.releases import Receipt

Kind = TypeVar("Kind", bound=type)

METADATA = "dp"  # of an answer that an adapter has shown

_HANDS_ON = ("with_fallbacks", "configurable_alternatives")  # raw input to other Runnables
_WRAPPERS = ("map", "with_retry", "pipe", "__or__", *_HANDS_ON)
LISTENERS = ("with_types", "with_listeners", "with_alisteners")


def by_way(way: str, *names: str) -> Callable[[Kind], Kind]:
    """Gives a class methods of a Runnable that go by another of its methods, told their names."""

    def method_of(name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(self, way)(name, *args, **kwargs)

        return method

    def decorated(kind: Kind) -> Kind:
        for name in names:
            setattr(kind, name, method_of(name))
        return kind

    return decorated


@by_way("_wrapped", *_WRAPPERS)
@by_way("_derived", "bind", "with_config", "configurable_fields", *LISTENERS)
class RefusedWrappers:
    """Refuses what would trace raw input or hand it on, also on all that derives from it."""

    @property
    def _allowed(self) -> Collection[str]:
        """For raw input: "record", runs around the call may; "send", fallbacks may be given it."""
        return ("record",) if getattr(self, "traced", "") == "allow" else ()

    @property
    def _component(self) -> Any:
        """The adapter that the answers to these come from."""
        return self

    def as_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses, unless its input is public: LangChain would trace the raw arguments."""
        self._require_public("as_tool")
        return self._plain("as_tool", *args, **kwargs)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(), name)(*args, **kwargs)

    def _derived(self, name: str, /, *args: Any, **kwargs: Any) -> PrivateBinding:
        return PrivateBinding(bound=self._plain(name, *args, **kwargs), component=self._component)

    def _wrapped(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        self._require_public(name)
        return self._derived(name, *args, **kwargs)

    def _require_public(self, name: str) -> None:
        if ("send" if name in _HANDS_ON else "record") not in self._allowed:
            raise ParameterError(
                f"{name}() of {type(self._component).__name__} would trace raw inputs or hand them "
                "on; call batch(), retry and fall back around the call, or put a PrivateHead first"
            )


class PrivateBinding(RefusedWrappers, RunnableBinding[Any, Any]):
    """Something made of an adapter, its ``component``, with what that refuses."""

    component: Any = Field(exclude=True, repr=False)

    @property
    def _component(self) -> Any:
        return self.component

    @property
    def _allowed(self) -> Collection[str]:
        return cast("Collection[str]", self._component._allowed)

    def _plain(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.bound, name)(*args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Entered:
    """A call behind the boundary: what runs there on what was released, and its way back."""

    rest: Runnable[Any, Any] = field(default_factory=RunnablePassthrough)
    input: Any
    config: RunnableConfig
    exchange: Exchange | None = None
    receipt: Receipt = field(default_factory=Receipt)

    def whole(self, answer: Any) -> Any:
        """Returns what the caller is shown; it is in no run of LangChain."""
        return signed(restored(self.exchange, answer), self.receipt)

    def shown_by(self, way: Any, pieces: Any) -> Any:
        """Shows pieces by ``fed`` or ``afed``: what could become a pseudonym is held back."""
        stream = _Stream(self.exchange, self.receipt)
        return way(pieces, stream.feed, stream.close)


class ReleasedCalls(RefusedWrappers):
    """Call paths that LangChain traces no sooner than in the rest, which is given released text."""

    @abstractmethod
    def _enter(self, value: Any, config: RunnableConfig | None) -> Entered:
        """Releases the input: what runs behind the boundary, and all that it is given."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        entered = self._enter(input, config)
        return entered.whole(entered.rest.invoke(entered.input, entered.config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        entered = await asyncio.to_thread(self._enter, input, config)
        return entered.whole(await entered.rest.ainvoke(entered.input, entered.config, **kwargs))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Releases the whole input when first iterated, then streams the rest."""
        entered = self._enter(input, config)
        pieces = entered.rest.stream(entered.input, entered.config, **kwargs)
        yield from entered.shown_by(fed, pieces)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        entered = await asyncio.to_thread(self._enter, input, config)
        source = entered.rest.astream(entered.input, entered.config, **kwargs)
        async with aclosing(entered.shown_by(afed, source)) as pieces:
            async for piece in pieces:
                yield piece

    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Gives the events of the rest, in which nothing is restored."""
        entered = self._enter(input, config)
        return entered.rest.stream_events(entered.input, entered.config, **kwargs)

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Gives the events of the rest; of ``version="v3"`` an awaitable, as LangChain does."""

        async def typed() -> Any:
            entered = await asyncio.to_thread(self._enter, input, config)
            return await entered.rest.astream_events(entered.input, entered.config, **kwargs)

        async def untyped() -> AsyncIterator[Any]:
            entered = await asyncio.to_thread(self._enter, input, config)
            events = entered.rest.astream_events(entered.input, entered.config, **kwargs)
            async with aclosing(events) as begun:
                async for event in begun:
                    yield event

        return typed() if kwargs.get("version") == "v3" else untyped()


def signed(answer: Any, receipt: Receipt) -> Any:
    """A message with ``response_metadata["dp"]``, all of it public; anything else as it is."""
    said = receipt.to_dict()
    if not said or not isinstance(answer, AIMessage):
        return answer
    metadata = {**answer.response_metadata, METADATA: said}
    return answer.model_copy(update={"response_metadata": metadata})


def restored(exchange: Exchange | None, value: Any) -> Any:
    """Returns a copy of an answer, or of what was made of it, with the originals."""
    if exchange is None or not exchange.restores:
        return value
    again = partial(restored, exchange)
    if isinstance(value, BaseMessage):
        names = {"content", "additional_kwargs", "tool_calls", "invalid_tool_calls"}
        fields = {name: getattr(value, name) for name in names & {*type(value).model_fields}}
        return value.model_copy(update=exchange.restore_fields(fields))
    if isinstance(value, BaseModel):
        fields = {name: again(getattr(value, name)) for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, dict | list | tuple):
        return each_in(value, again)
    if isinstance(value, str):
        return exchange.restore(value)
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return exchange.restore_value(value) if is_number else value


class _Stream:
    """Pieces of one answer: texts, blocks and arguments of calls, each with what is held back."""

    def __init__(self, exchange: Exchange | None, receipt: Receipt) -> None:
        self._exchange, self._receipt = exchange, receipt
        self._reply = None if exchange is None or not exchange.restores else Reply(exchange)
        self._last: Any = None

    def feed(self, piece: Any) -> Any:
        """Returns what is shown; the first has the receipt: those of all would be joined."""
        shown = piece if self._reply is None else self._fed(self._reply, piece)
        shown, self._receipt = signed(shown, self._receipt), Receipt()
        return shown

    def close(self) -> list[Any]:
        rests = {} if self._reply is None else self._reply.close_all()
        return [self._rest(place, text) for place, text in rests.items()]

    def _fed(self, reply: Reply, piece: Any) -> Any:
        if isinstance(piece, str):
            self._last = piece
            return reply.text(piece)
        if not isinstance(piece, AIMessageChunk):
            return restored(self._exchange, piece)
        self._last, content = piece, piece.content
        made = {"tool_calls", "invalid_tool_calls"}  # of the chunks
        data = {name: getattr(piece, name) for name in {*type(piece).model_fields} - made}
        data["additional_kwargs"] = {}  # what else a provider says of its calls is said above
        data["content"] = (
            reply.text(content)
            if isinstance(content, str)
            else [_shown_block(reply, block, place) for place, block in enumerate(content)]
        )
        calls = [{**call, "args": _shown_call(reply, call)} for call in piece.tool_call_chunks]
        return AIMessageChunk(**{**data, "tool_call_chunks": calls})

    def _rest(self, place: Any, text: str) -> Any:
        if isinstance(self._last, str):
            return text
        kind, index = ("text", None) if place == "text" else place
        content: Any = text if kind == "text" else ""
        if kind == "block":
            content = [{"type": "text", "text": text, "index": index}]
        calls = [tool_call_chunk(args=text, index=index)] if kind == "call" else []
        return AIMessageChunk(content=content, tool_call_chunks=calls, id=self._last.id)


def _shown_block(reply: Reply, block: Any, place: int) -> Any:
    if isinstance(block, str):
        return reply.text(block, ("block", place))
    if isinstance(block, dict) and block.get("type") == "text":
        text = reply.text(block.get("text", ""), ("block", block.get("index", place)))
        return {**block, "text": text}
    return block


def _shown_call(reply: Reply, call: Any) -> str:
    place = ("call", call["index"])
    if not reply.has_call(place):
        reply.call(place, call["id"] or "", call["name"] or "")
    return reply.arguments(call["args"] or "", place)
