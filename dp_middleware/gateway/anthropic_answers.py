"""Answers of Anthropic's Messages API, whole or in pieces, as the client is shown them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.gateway.failures import Failure, garbage, read

_WORDS = ("text", "thinking")
_THOUGHTS = ("thinking", "redacted_thinking")
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REST = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def spelled(failure: Failure) -> dict[str, Any]:
    """Returns what a client is told of a failure, as Anthropic spells it."""
    kind = _KINDS.get(failure.status)
    if kind is None:
        kind = "invalid_request_error" if failure.status < 500 else "api_error"
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


def said_in(blocks: Sequence[Mapping[str, Any]]) -> Message:
    """The message in the blocks of an answer; its thoughts are kept as they are."""
    texts, calls, thoughts = list[str](), list[ToolCall](), list[Any]()
    for block in blocks:
        kind = block.get("type", "text")
        if kind == "text":
            texts.append(block["text"])
        elif kind == "tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            calls.append(ToolCall(block["id"], block["name"], arguments))
        elif kind in _THOUGHTS:
            names = ("type", "thinking", "signature", "data")
            thoughts.append({name: block[name] for name in names if name in block})
    return Message(
        role="assistant",
        texts=("".join(texts),),
        calls=tuple(calls),
        extra={"thoughts": thoughts} if thoughts else {},
    )


def shown_message(exchange: Exchange, answer: dict[str, Any]) -> dict[str, Any]:
    """Notes a whole answer, and returns what the client is shown."""
    blocks = answer.get("content")
    if not isinstance(blocks, list):
        raise garbage()
    exchange.answer(read(said_in, blocks))
    return {**answer, "content": [read(_shown_block, exchange, block) for block in blocks]}


def _shown_block(exchange: Exchange, block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_use":
        arguments = json.dumps(block["input"], ensure_ascii=False)
        return {**block, "input": json.loads(exchange.arguments(block["name"], arguments))}
    return {**block, **{name: exchange.restore(block[name]) for name in _WORDS if name in block}}


class MessageStream:
    """The events of a streamed answer."""

    named = True

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._reply = exchange, Reply(exchange)
        self._blocks: dict[int, dict[str, Any]] = {}  # what the upstream has said
        self._inputs: dict[int, str] = {}
        self._ended = False

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns what is sent for one of the upstream's events."""
        return read(self._fed, event)

    def _fed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        kind, place = event["type"], event.get("index", 0)
        if kind == "content_block_start":
            self._blocks[place] = block = dict(event["content_block"])
            if block["type"] == "tool_use":
                self._inputs[place], block["input"] = "", None  # until its end
                self._reply.call(place, str(block["id"]), str(block["name"]))
            first = {name: self._reply.text(block[name], place) for name in _WORDS if name in block}
            return [{**event, "content_block": {**event["content_block"], **first}}]
        if kind == "content_block_delta":
            return [{**event, "delta": self._piece(place, event["delta"])}]
        if kind == "content_block_stop":
            rest, block = self._reply.close(place), self._blocks[place]
            if place in self._inputs:
                block["input"] = json.loads(self._inputs[place] or "{}")
            if not rest:
                return [event]
            delta = _REST[block["type"]]
            held = {"type": "content_block_delta", "index": place}
            return [{**held, "delta": {"type": delta, _PIECES[delta]: rest}}, event]
        self._ended = self._ended or kind == "message_stop"
        return [event]

    def _piece(self, place: int, delta: dict[str, Any]) -> dict[str, Any]:
        block, name = self._blocks[place], _PIECES.get(delta["type"])
        if delta["type"] == "signature_delta":
            block["signature"] = delta["signature"]
        if name is None:
            return delta
        if place in self._inputs:
            self._inputs[place] += delta[name]
            return {**delta, name: self._reply.arguments(delta[name], place)}
        block[name] = block.get(name, "") + delta[name]
        return {**delta, name: self._reply.text(delta[name], place)}

    def complete(self) -> bool:
        """Tells whether the answer has ended."""
        return self._ended

    def broken(self, failure: Failure) -> dict[str, Any]:
        """Returns the event that Anthropic's clients expect."""
        return spelled(failure)

    def note(self, *, left: bool = False) -> None:
        """Tells the session what was said; what broke off in the middle of a call is no answer."""
        blocks = [block for _, block in sorted(self._blocks.items())]
        if all(isinstance(block.get("input", {}), dict) for block in blocks):
            self._exchange.answer(read(said_in, blocks), left=left)
