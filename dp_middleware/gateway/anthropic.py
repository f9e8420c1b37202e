"""``/v1/messages`` of Anthropic's protocol: whole, streamed, or only counted."""
# ruff: noqa: D102 - the calls are documented in Shown

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.gateway import fields
from dp_middleware.gateway.failures import Failure, garbage
from dp_middleware.gateway.fields import (
    MOST,
    Check,
    flag,
    many,
    number,
    one_of,
    parts_of,
    record,
    refuse,
    text,
    texts_in,
    whole,
)
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import ANTHROPIC, Policy
from dp_middleware.gateway.turns import Plan, Shown, answered, named, released

COUNT = f"{ANTHROPIC}/count_tokens"
_WORDS = ("text", "thinking")
_THOUGHTS = ("thinking", "redacted_thinking")
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REST = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}


async def messages(call: Call) -> Response:
    """Releases system prompt and messages, asks the upstream, shows its answer."""
    turn = await released(call, plan_of)
    return await answered(turn, ANTHROPIC, ShownMessage(turn.exchange))


async def count_tokens(call: Call) -> Response:
    """Releases what would be sent, and has it counted; sending it afterwards costs nothing."""
    turn = await released(call, partial(plan_of, required=("model", "messages")))
    answer = await call.gateway.upstream.ask(COUNT, turn.body)
    counted = answer.get("input_tokens")
    if not isinstance(counted, int):
        raise garbage()
    return JSONResponse({"input_tokens": counted}, headers=turn.headers)


def plan_of(call: Call, required: tuple[str, ...] = ("model", "messages", "max_tokens")) -> Plan:
    """Reads what is private in a request, and what is sent in its place."""
    policy, known = call.policy, set[str]()
    given = _request(policy, call.gateway.settings.upstream.models, required)(call.body, "")
    turns, system = given.pop("messages"), given.pop("system", None)
    fields.require_choice(given)
    first: list[Message] = []
    if system is not None:
        public = policy.system == "public"
        first = [Message(role="system", texts=texts_in(system), aside=True, public=public)]
    parts = [[*_read(turn, f"messages[{place}]", known)] for place, turn in enumerate(turns)]

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        left = iter(sent[len(first) :])
        told = {"system": _texts(system, sent[0])} if first else {}
        out = [
            {"role": turn["role"], "content": [b for own, _ in read for b in _blocks(own, left)]}
            for turn, read in zip(turns, parts, strict=True)
        ]
        return {**given, **told, "messages": out}

    transcript = [*first, *(message for read in parts for _, message in read)]
    return Plan(transcript=transcript, conversation=named(call), build=build)


def _read(turn: dict[str, Any], where: str, known: set[str]) -> Iterator[tuple[Any, Message]]:
    """Yields the messages of a turn with their blocks; results of tools are some of their own."""
    blocks = turn["content"]
    if turn["role"] == "assistant":
        said = said_in(blocks)
        known |= {call.id for call in said.calls}
        yield blocks, said
        return
    words = [block for block in blocks if "tool_use_id" not in block]
    for place, block in enumerate(blocks[: len(blocks) - len(words)]):
        if "tool_use_id" not in block:
            raise refuse(f"{where}.content", "results of tools before texts")
        if block["tool_use_id"] not in known:
            where = f"{where}.content[{place}].tool_use_id"
            raise refuse(where, "that of a call in an earlier message")
        yield block, Message(role="tool", texts=texts_in(block.get("content", ())))
    if words:
        yield words, Message(role="user", texts=texts_in(words))


def _blocks(given: Any, left: Iterator[Message]) -> list[dict[str, Any]]:
    sent = next(left)
    if sent.role == "tool":
        return [{**given, "content": _texts(given.get("content", ()), sent)}]
    if sent.role == "user":
        return _texts(given, sent)
    texts = [{"type": "text", "text": sent.text}] if sent.text else []
    calls = [
        {"type": "tool_use", "id": c.id, "name": c.name, "input": json.loads(c.arguments)}
        for c in sent.calls
    ]
    return [*sent.extra.get("thoughts", ()), *texts, *calls]


def _texts(given: Any, sent: Message) -> list[dict[str, Any]]:
    return [{**p, "type": "text", "text": t} for p, t in zip(given, sent.texts, strict=True)]


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


class ShownMessage(Shown):
    """Messages, with their thoughts."""

    is_named = True

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._reply = Reply(exchange)
        self._blocks: dict[int, dict[str, Any]] = {}  # what the upstream has said
        self._inputs: dict[int, str] = {}
        self._ended = False

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        self.exchange.answer(said_in(answer["content"]))
        return {**answer, "content": [*map(self._block, answer["content"])]}

    def _block(self, block: dict[str, Any]) -> dict[str, Any]:
        if block["type"] == "tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            return {**block, "input": json.loads(self.exchange.arguments(block["name"], arguments))}
        shown = {name: self.exchange.restore(block[name]) for name in _WORDS if name in block}
        return {**block, **shown}

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
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

    def broken(self, failure: Failure) -> dict[str, Any]:
        return failure.anthropic()

    def note(self, *, left: bool = False) -> bool:
        blocks = [block for _, block in sorted(self._blocks.items())]
        if all(isinstance(block.get("input", {}), dict) for block in blocks):  # no half a call
            self.exchange.answer(said_in(blocks), left=left)
        return self._ended


@cache
def _request(policy: Policy, models: tuple[str, ...], required: tuple[str, ...]) -> Check:
    budget = whole(1, 10_000_000)
    thinking = {"type": one_of("enabled", "disabled", "adaptive"), "budget_tokens": budget}
    tools = many(record({**_TOOL, **_OF_TOOL}, tuple(_TOOL)), least=0, most=MOST)
    choice = {"type": one_of("auto", "any", "tool", "none"), "name": text}
    return record(
        {
            "model": one_of(*models),
            "messages": many(fields.by("role", _TURNS), most=MOST),
            "system": _TEXTS,
            "max_tokens": budget,
            "stream": flag,
            "temperature": number(0, 1),
            "top_p": number(0, 1),
            "top_k": whole(0, 1_000_000),
            "service_tier": one_of("auto", "standard_only"),
            "thinking": record(thinking, ("type",)),
            "stop_sequences": fields.declared(policy.stop == "public", many(text, 0), "stop"),
            "tools": fields.declared(policy.tools == "public", tools, "tools"),
            "tool_choice": record({**choice, "disable_parallel_tool_use": flag}, ("type",)),
        },
        required,
    )


_CACHE = record({"type": one_of("ephemeral"), "ttl": one_of("5m", "1h")}, ("type",))
_TEXT = record({"type": text, "text": text, "cache_control": _CACHE}, ("text",))
_TEXTS = parts_of({"text": _TEXT})
_OF_RESULT = {"type": text, "content": _TEXTS, "is_error": flag, "cache_control": _CACHE}
_RESULT = record({"tool_use_id": text, **_OF_RESULT}, ("tool_use_id",))
_CALL = {"type": text, "id": text, "name": text, "input": fields.json_object}
_SAID = {
    "text": record({"type": text, "text": text, "citations": fields.anything}, ("text",)),
    "tool_use": record({**_CALL, "caller": fields.anything}, ("id", "name", "input")),
    "thinking": record({"type": text, "thinking": text, "signature": text}, ("thinking",)),
    "redacted_thinking": record({"type": text, "data": text}, ("data",)),
}
_TURNS = {
    role: record({"role": text, "content": parts_of(kinds)}, ("role", "content"))
    for role, kinds in {"user": {"text": _TEXT, "tool_result": _RESULT}, "assistant": _SAID}.items()
}
_TOOL = {"name": text, "input_schema": fields.json_object}
_OF_TOOL = {"type": one_of("custom"), "description": text, "cache_control": _CACHE, "strict": flag}
