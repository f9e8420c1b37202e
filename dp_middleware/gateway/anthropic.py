"""``/v1/messages`` of Anthropic's protocol: whole, streamed, or only counted."""
# ruff: noqa: D102 - the calls are documented in Shown

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Growing
from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.gateway import fields as f
from dp_middleware.gateway.failures import Failure, garbage
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import ANTHROPIC, Policy
from dp_middleware.gateway.turns import Plan, Shown, Turn, answered, released

COUNT = f"{ANTHROPIC}/count_tokens"
_WORDS = ("text", "thinking")
_OF_THOUGHT = ("type", "thinking", "signature", "data")
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REST = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}


async def messages(call: Call) -> Response:
    """Releases system prompt and messages, asks the upstream, shows its answer."""
    return await answered(call, plan_of, ANTHROPIC, ShownMessage)


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
    f.require_choice(given)
    first = f.instructions(None if system is None else f.texts_in(system), policy)
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
    return Plan(transcript=transcript, build=build)


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
            raise f.refuse(f"{where}.content", "results of tools before texts")
        if block["tool_use_id"] not in known:
            where = f"{where}.content[{place}].tool_use_id"
            raise f.refuse(where, "that of a call in an earlier message")
        yield block, Message(role="tool", texts=f.texts_in(block.get("content", ())))
    if words:
        yield words, Message(role="user", texts=f.texts_in(words))


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
    kinds = [(block.get("type", "text"), block) for block in blocks]
    text = "".join(block["text"] for kind, block in kinds if kind == "text")
    calls = [
        ToolCall(block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False))
        for kind, block in kinds
        if kind == "tool_use"
    ]
    thoughts = [
        {name: block[name] for name in _OF_THOUGHT if name in block}
        for kind, block in kinds
        if kind in ("thinking", "redacted_thinking")
    ]
    extra = {"thoughts": thoughts} if thoughts else {}
    return Message(role="assistant", texts=(text,), calls=tuple(calls), extra=extra)


class ShownMessage(Shown):
    """Messages, with their thoughts."""

    is_named = True

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._blocks: dict[int, tuple[dict[str, Any], Growing]] = {}  # as the upstream says them
        self._open: set[int] = set()
        self._ended = False

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        calls = iter(self.exchange.answer(said_in(answer["content"])).calls)
        shown = [
            {**block, "input": json.loads(next(calls).arguments)}
            if block["type"] == "tool_use"
            else self.exchange.restore_fields(block, _WORDS)
            for block in answer["content"]
        ]
        return {**answer, "content": shown}

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        kind, place = event["type"], event.get("index", 0)
        if kind == "content_block_start":
            block = event["content_block"]
            is_call, exchange = block["type"] == "tool_use", self.exchange
            growing = exchange.tool_restorer(block["name"]) if is_call else exchange.restorer()
            self._blocks[place] = dict(block), growing
            self._open.add(place)
            first = {name: growing.feed(block[name]) for name in _WORDS if name in block}
            return [{**event, "content_block": {**block, **first}}]
        if kind == "content_block_delta":
            (block, growing), delta = self._blocks[place], event["delta"]
            name = _PIECES.get(delta["type"])
            if delta["type"] == "signature_delta":
                block["signature"] = delta["signature"]
            if name is None:
                return [event]
            return [{**event, "delta": {**delta, name: growing.feed(delta[name])}}]
        if kind == "content_block_stop":
            block, growing = self._blocks[place]
            self._open.discard(place)
            if not (rest := growing.close()):
                return [event]
            delta = _REST[block["type"]]
            held = {"type": "content_block_delta", "index": place}
            return [{**held, "delta": {"type": delta, _PIECES[delta]: rest}}, event]
        self._ended = self._ended or kind == "message_stop"
        return [event]

    def broken(self, failure: Failure) -> dict[str, Any]:
        return failure.anthropic()

    def note(self, *, left: bool = False) -> bool:
        blocks = list[dict[str, Any]]()
        for place, (block, growing) in sorted(self._blocks.items()):
            if block["type"] == "tool_use":
                if place in self._open:  # half a call
                    return self._ended
                block = {**block, "input": json.loads(growing.said or "{}")}
            elif block["type"] in _WORDS:
                block = {**block, block["type"]: growing.said}
            blocks.append(block)
        self.exchange.answer(said_in(blocks), left=left)
        return self._ended


@cache
def _request(policy: Policy, models: tuple[str, ...], required: tuple[str, ...]) -> f.Check:
    budget = f.whole(1, 10_000_000)
    thinking = {"type": f.one_of("enabled", "disabled", "adaptive"), "budget_tokens": budget}
    tools = f.many(f.record({**_TOOL, **_OF_TOOL}, tuple(_TOOL)), least=0, most=f.MOST)
    choice = {"type": f.one_of("auto", "any", "tool", "none"), "name": f.text}
    return f.record(
        {
            "model": f.one_of(*models),
            "messages": f.many(f.by("role", _TURNS), most=f.MOST),
            "system": _TEXTS,
            "max_tokens": budget,
            "stream": f.flag,
            "temperature": f.number(0, 1),
            "top_p": f.number(0, 1),
            "top_k": f.whole(0, 1_000_000),
            "service_tier": f.one_of("auto", "standard_only"),
            "thinking": f.record(thinking, ("type",)),
            "stop_sequences": f.declared(policy.stop == "public", f.many(f.text, 0), "stop"),
            "tools": f.declared(policy.tools == "public", tools, "tools"),
            "tool_choice": f.record({**choice, "disable_parallel_tool_use": f.flag}, ("type",)),
        },
        required,
    )


_CACHE = f.record({"type": f.one_of("ephemeral"), "ttl": f.one_of("5m", "1h")}, ("type",))
_TEXT = f.record({"type": f.text, "text": f.text, "cache_control": _CACHE}, ("text",))
_TEXTS = f.parts_of({"text": _TEXT})
_OF_RESULT = {"type": f.text, "content": _TEXTS, "is_error": f.flag, "cache_control": _CACHE}
_RESULT = f.record({"tool_use_id": f.text, **_OF_RESULT}, ("tool_use_id",))
_CALL = {"type": f.text, "id": f.text, "name": f.text, "input": f.json_object}
_SAID = {
    "text": f.record({"type": f.text, "text": f.text, "citations": f.anything}, ("text",)),
    "tool_use": f.record({**_CALL, "caller": f.anything}, ("id", "name", "input")),
    "thinking": f.record({"type": f.text, "thinking": f.text, "signature": f.text}, ("thinking",)),
    "redacted_thinking": f.record({"type": f.text, "data": f.text}, ("data",)),
}
_TURNS = {
    role: f.record({"role": f.text, "content": f.parts_of(kinds)}, ("role", "content"))
    for role, kinds in {"user": {"text": _TEXT, "tool_result": _RESULT}, "assistant": _SAID}.items()
}
_TOOL = {"name": f.text, "input_schema": f.json_object}
_OF_TOOL = {
    "type": f.one_of("custom"),
    "description": f.text,
    "cache_control": _CACHE,
    "strict": f.flag,
}
