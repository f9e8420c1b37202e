"""``/v1/messages`` of Anthropic's protocol: whole, streamed, or only counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.messages import Message
from dp_middleware.gateway import declared, fields
from dp_middleware.gateway.anthropic_answers import MessageStream, said_in, shown_message
from dp_middleware.gateway.failures import garbage, read
from dp_middleware.gateway.fields import Check, flag, number, one_of, record, refuse, text, whole
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import EventStream, Plan, in_thread, named, released

PATH = "/messages"
COUNT = "/messages/count_tokens"
_MOST = 2000  # messages, or blocks in one


async def messages(call: Call) -> Response:
    """Releases system prompt and messages, asks the upstream, shows its answer."""
    turn = await released(call, plan_of)
    if turn.body.get("stream"):
        return EventStream(turn, PATH, MessageStream(turn.exchange))
    answer = await call.gateway.upstream.ask(PATH, turn.body)
    shown = await in_thread(partial(shown_message, turn.exchange, answer))
    return JSONResponse(shown, headers=turn.headers)


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
    policy = call.policy
    given = _request(policy, call.gateway.settings.upstream.models, required)(call.body, "")
    turns, system = given.pop("messages"), given.pop("system", None)
    chosen = given.get("tool_choice", {}).get("name")
    if chosen is not None and chosen not in {tool["name"] for tool in given.get("tools", ())}:
        raise refuse("tool_choice.name", "a tool of this request")
    first: list[Message] = []
    if system is not None:
        public = policy.system == "public"
        first = [Message(role="system", texts=fields.texts_in(system), aside=True, public=public)]
    read_turns, known = list[list[tuple[Any, Message]]](), set[str]()
    for place, turn in enumerate(turns):
        read_turns.append(list(_read(turn, f"messages[{place}]", known)))

    def build(sent: Sequence[Message]) -> dict[str, Any]:
        left = iter(sent[len(first) :])
        told = {"system": _blocks(system, sent[0])} if first else {}
        out = [
            {
                "role": turn["role"],
                "content": [b for blocks, _ in parts for b in _blocks(blocks, next(left))],
            }
            for turn, parts in zip(turns, read_turns, strict=True)
        ]
        return {**given, **told, "messages": out}

    transcript = [*first, *(message for parts in read_turns for _, message in parts)]
    return Plan(transcript=transcript, conversation=named(call), build=build)


def _read(turn: Any, where: str, known: set[str]) -> Iterator[tuple[Any, Message]]:
    """Yields the messages of a turn with their blocks; results of tools are some of their own."""
    role = one_of("user", "assistant")(
        turn.get("role") if isinstance(turn, dict) else None, f"{where}.role"
    )
    checked = (_USER if role == "user" else _ASSISTANT)(turn, where)
    blocks = checked["content"]
    if role == "assistant":
        said = read(said_in, blocks)
        known |= {call.id for call in said.calls}
        yield blocks, said
        return
    words = list[dict[str, Any]]()
    for place, block in enumerate(blocks):
        if "tool_use_id" not in block:
            words.append(block)
            continue
        if block["tool_use_id"] not in known:
            where = f"{where}.content[{place}].tool_use_id"
            raise refuse(where, "that of a call in an earlier message")
        if words:
            raise refuse(f"{where}.content", "results of tools before texts")
        texts = fields.texts_in(block.get("content", ()))
        yield block, Message(role="tool", texts=texts)
    if words:
        yield words, Message(role="user", texts=fields.texts_in(words))


def _blocks(given: Any, sent: Message) -> list[dict[str, Any]]:
    if sent.role == "assistant":
        texts = [{"type": "text", "text": sent.text}] if sent.text else []
        calls = [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": json.loads(c.arguments)}
            for c in sent.calls
        ]
        return [*sent.extra.get("thoughts", ()), *texts, *calls]
    if sent.role == "tool":
        parts = given.get("content", ())
        inner = [{**p, "type": "text", "text": t} for p, t in zip(parts, sent.texts, strict=True)]
        return [{**given, "content": inner}]
    return [{**p, "type": "text", "text": t} for p, t in zip(given, sent.texts, strict=True)]


@cache
def _request(policy: Policy, models: tuple[str, ...], required: tuple[str, ...]) -> Check:
    budget = whole(1, 10_000_000)
    thinking = {"type": one_of("enabled", "disabled", "adaptive"), "budget_tokens": budget}
    tools = fields.many(_TOOL, least=0, most=_MOST)
    return record(
        {
            "model": one_of(*models),
            "messages": fields.many(fields.anything, most=_MOST),
            "system": _TEXTS,
            "max_tokens": budget,
            "stream": flag,
            "temperature": number(0, 1),
            "top_p": number(0, 1),
            "top_k": whole(0, 1_000_000),
            "service_tier": one_of("auto", "standard_only"),
            "thinking": record(thinking, ("type",)),
            "stop_sequences": declared.declared(
                policy.stop == "public", fields.many(text, least=0), "stop"
            ),
            "tools": declared.declared(policy.tools == "public", tools, "tools"),
            "tool_choice": record(
                {
                    "type": one_of("auto", "any", "tool", "none"),
                    "name": text,
                    "disable_parallel_tool_use": flag,
                },
                ("type",),
            ),
        },
        required,
    )


_CACHE = record({"type": one_of("ephemeral"), "ttl": one_of("5m", "1h")}, ("type",))
_TEXT = record({"type": text, "text": text, "cache_control": _CACHE}, ("text",))
_TEXTS = fields.parts_of({"text": _TEXT})
_RESULT = record(
    {
        "type": text,
        "tool_use_id": text,
        "content": _TEXTS,
        "is_error": flag,
        "cache_control": _CACHE,
    },
    ("tool_use_id",),
)
_USER = record(
    {"role": text, "content": fields.parts_of({"text": _TEXT, "tool_result": _RESULT})},
    ("role", "content"),
)
_CALL = {"type": text, "id": text, "name": text, "input": declared.json_object}
_SAID = {
    "text": record({"type": text, "text": text, "citations": fields.anything}, ("text",)),
    "tool_use": record({**_CALL, "caller": fields.anything}, ("id", "name", "input")),
    "thinking": record({"type": text, "thinking": text, "signature": text}, ("thinking",)),
    "redacted_thinking": record({"type": text, "data": text}, ("data",)),
}
_ASSISTANT = record({"role": text, "content": fields.parts_of(_SAID)}, ("role", "content"))
_TOOL = record(
    {
        "type": one_of("custom"),
        "name": text,
        "description": text,
        "input_schema": declared.json_object,
        "cache_control": _CACHE,
        "strict": flag,
    },
    ("name", "input_schema"),
)
