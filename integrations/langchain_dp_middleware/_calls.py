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
from langchain_core.outputs import ChatGeneration
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnablePassthrough
from pydantic import BaseModel, Field

from dp_middleware._quiet import afed, fed
from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.releases import Receipt

Kind = TypeVar("Kind", bound=type)

METADATA = "dp"  # of an answer that an adapter has shown

_REMEDIES = {
    "map": "call batch()",
    "as_tool": "call it inside no tool",
    "with_retry": "retry around the call, or put the part that fails behind a PrivateHead",
    "with_fallbacks": "fall back around the call, or put the part that fails behind a PrivateHead",
    "configurable_alternatives": "choose before you wrap",
}
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
                f"{name}() of {type(self._component).__name__} would trace raw inputs or hand "
                f"them on; {_REMEDIES.get(name, 'put a PrivateHead first')}"
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

        async def begun() -> Any:
            entered = await asyncio.to_thread(self._enter, input, config)
            return entered.rest.astream_events(entered.input, entered.config, **kwargs)

        async def typed() -> Any:
            return await (await begun())

        async def untyped() -> AsyncIterator[Any]:
            async with aclosing(await begun()) as events:
                async for event in events:
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
    if isinstance(value, ChatGeneration):
        return ChatGeneration(message=again(value.message), generation_info=value.generation_info)
    if isinstance(value, BaseModel):
        fields = {name: again(getattr(value, name)) for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, dict):
        return {again(key): again(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [*map(again, value)] if isinstance(value, list) else tuple(map(again, value))
    if isinstance(value, str):
        return exchange.restore(value)
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return exchange.restore_value(value) if is_number else value


# what is shown in pieces -------------------------------------------------------------------------


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
        shown: Any = (
            reply.text(content)
            if isinstance(content, str)
            else [_shown_block(reply, block, place) for place, block in enumerate(content)]
        )
        calls = [{**call, "args": _shown_call(reply, call)} for call in piece.tool_call_chunks]
        data = {name: getattr(piece, name) for name in type(piece).model_fields}
        for name in ("tool_calls", "invalid_tool_calls"):  # made of the chunks
            data.pop(name, None)
        data["additional_kwargs"] = {}  # what else a provider says of its calls is said above
        return AIMessageChunk(**{**data, "content": shown, "tool_call_chunks": calls})

    def _rest(self, place: Any, text: str) -> Any:
        if isinstance(self._last, str):
            return text
        if place == "text":
            return AIMessageChunk(content=text, id=self._last.id)
        kind, index = place
        if kind == "block":
            block = {"type": "text", "text": text, "index": index}
            return AIMessageChunk(content=[block], id=self._last.id)
        call = tool_call_chunk(args=text, index=index)
        return AIMessageChunk(content="", tool_call_chunks=[call], id=self._last.id)


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
