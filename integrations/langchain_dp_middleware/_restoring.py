"""What the caller is shown of a remote answer: under a session with pseudonyms, the originals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from pydantic import BaseModel

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded

_FUNCTIONS = ("arguments", "args", "partial_json")  # keys under which JSON is written as text


@dataclass(frozen=True)
class Restoring:
    """Restores what a remote model answered in one conversation.

    Attributes:
        session: With pseudonyms or without; ``None``: nothing is restored.
        conversation: Its public name.
    """

    session: dp.Session | None = None
    conversation: str = ""

    @property
    def _restores(self) -> bool:
        return self.session is not None and self.session.restores

    def whole(self, value: Any) -> Any:
        """A copy of an answer, or of what was made of it, with the originals."""
        if not self._restores:
            return value
        return guarded(self._restored, value, what="the restoration")

    def pieces(self, pieces: Iterator[Any]) -> Iterator[Any]:
        """The pieces of an answer; what could still become a pseudonym is held back."""
        if not self._restores:
            yield from pieces
            return
        stream = _Stream(self)
        for piece in pieces:
            yield guarded(stream.feed, piece, what="the restoration")
        yield from guarded(stream.close, what="the restoration")

    async def apieces(self, pieces: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """As :meth:`pieces`."""
        stream = _Stream(self)
        restores = self._restores
        source: Any = pieces
        async with aclosing(source):
            async for piece in source:
                yield guarded(stream.feed, piece, what="the restoration") if restores else piece
        for piece in guarded(stream.close, what="the restoration") if restores else ():
            yield piece

    def _restored(self, value: Any) -> Any:
        if isinstance(value, BaseMessage):
            return self._message(value)
        if isinstance(value, ChatGeneration):
            return ChatGeneration(
                message=self._message(value.message), generation_info=value.generation_info
            )
        if isinstance(value, ChatResult | LLMResult):
            rows = [self._restored(row) for row in value.generations]
            return value.model_copy(update={"generations": rows})
        if isinstance(value, BaseModel):
            fields = type(value).model_fields
            return value.model_copy(update={k: self._restored(getattr(value, k)) for k in fields})
        if isinstance(value, dict):
            return {self._restored(k): self._entry(k, v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            values = [self._restored(each) for each in value]
            return values if isinstance(value, list) else tuple(values)
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        assert self.session is not None  # asked for only then
        return self.session.restore(text, conversation=self.conversation)

    def _entry(self, key: Any, value: Any) -> Any:
        """The arguments of a call, written as JSON, stay JSON whatever the originals hold."""
        if key not in _FUNCTIONS or not isinstance(value, str):
            return self._restored(value)
        session: Any = self.session
        return session.restore_json(value, conversation=self.conversation)

    def _message(self, message: BaseMessage) -> BaseMessage:
        names, changed = ["content", "additional_kwargs"], {}
        if isinstance(message, AIMessage):
            names += ["tool_calls", "invalid_tool_calls"]
            session: Any = self.session
            counts = session.returned(message.text, conversation=self.conversation)
            changed["response_metadata"] = {**message.response_metadata, "dp_pseudonyms": counts}
        changed |= {name: self._restored(getattr(message, name)) for name in names}
        return message.model_copy(update=changed)


@dataclass
class _Stream:
    """Pieces of one answer: texts, blocks and arguments of calls, each with what is held back."""

    restoring: Restoring
    open: dict[Any, Any] = field(default_factory=dict)
    last: Any = None

    def feed(self, piece: Any) -> Any:
        if isinstance(piece, str):
            self.last = piece
            return self._restorer("text", json=False).feed(piece)
        if not isinstance(piece, AIMessageChunk):
            return self.restoring._restored(piece)
        self.last = piece
        return _chunk(piece, lambda key, text, json: self._restorer(key, json=json).feed(text))

    def close(self) -> list[Any]:
        rests = {key: text for key, one in self.open.items() if (text := one.close())}
        if isinstance(self.last, str):
            return list(rests.values())
        return [_rest(key, text, self.last) for key, text in rests.items()]

    def _restorer(self, key: Any, *, json: bool) -> Any:
        if key not in self.open:
            session: Any = self.restoring.session
            one = session.restorer(conversation=self.restoring.conversation, json=json)
            self.open[key] = one
        return self.open[key]


def _chunk(piece: AIMessageChunk, feed: Callable[[Any, str, bool], str]) -> AIMessageChunk:
    content: Any = piece.content
    if isinstance(content, str):
        content = feed("content", content, False)
    else:
        content = [_block(block, place, feed) for place, block in enumerate(content)]
    calls = [
        {**call, "args": feed(("call", call["index"]), call["args"] or "", True)}
        for call in piece.tool_call_chunks
    ]
    data = {name: getattr(piece, name) for name in type(piece).model_fields}
    for name in ("tool_calls", "invalid_tool_calls"):  # made of the chunks
        data.pop(name, None)
    data["additional_kwargs"] = {}  # what else a provider says of its calls is what it said above
    return AIMessageChunk(**{**data, "content": content, "tool_call_chunks": calls})


def _block(block: Any, place: int, feed: Callable[[Any, str, bool], str]) -> Any:
    if isinstance(block, str):
        return feed(("block", place), block, False)
    if isinstance(block, dict) and block.get("type") == "text":
        key = ("block", block.get("index", place))
        return {**block, "text": feed(key, block.get("text", ""), False)}
    return block


def _rest(key: Any, text: str, last: AIMessageChunk) -> AIMessageChunk:
    """What was held back to the end."""
    if key == "content":
        return AIMessageChunk(content=text, id=last.id)
    kind, index = key
    if kind == "block":
        return AIMessageChunk(content=[{"type": "text", "text": text, "index": index}], id=last.id)
    call = tool_call_chunk(args=text, index=index)
    return AIMessageChunk(content="", tool_call_chunks=[call], id=last.id)
