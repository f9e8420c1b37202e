"""``/v1/chat/completions``: its messages as a transcript and back; whole or streamed answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.gateway import fields
from dp_middleware.gateway.answers import ChatStream, shown_chat
from dp_middleware.gateway.extraction import Extraction
from dp_middleware.gateway.fields import Check, flag, one_of, record, refuse, text, whole
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import (
    DONE,
    EventStream,
    Plan,
    Turn,
    in_thread,
    named,
    released,
    sse,
)

PATH = "/chat/completions"
_MOST = 2000  # messages, or parts of one
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
}


async def chat(call: Call) -> Response:
    """Releases the messages, asks the upstream, shows its answer."""
    turn = await released(call, plan_of)
    extraction = call.gateway.sessions.extractions.get(call.policy_name)
    if extraction is not None:
        return await _extracted(turn, extraction)
    if turn.body.get("stream"):
        return EventStream(turn, PATH, ChatStream(turn.exchange), ends=DONE)
    answer = await call.gateway.upstream.ask(PATH, turn.body)
    shown = await in_thread(lambda: shown_chat(turn.exchange, answer))
    return JSONResponse(shown, headers=turn.headers)


async def _extracted(turn: Turn, extraction: Extraction) -> Response:
    """The answer that a local model made of the upstream's, which is waited for whole."""
    whole = {k: value for k, value in turn.body.items() if k not in ("stream", "stream_options")}
    answer = await turn.call.gateway.upstream.ask(PATH, whole)
    transcript = turn.plan.transcript
    shown = await in_thread(
        lambda: shown_chat(turn.exchange, answer, lambda said: extraction.fitted(said, transcript)),
        extraction.threads,
    )
    if not turn.body.get("stream"):
        return JSONResponse(shown, headers=turn.headers)
    events = b"".join(map(sse, _chunks(shown))) + DONE
    return Response(events, media_type="text/event-stream", headers=turn.headers)


def _chunks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A whole answer as the events of a stream: one for each choice, and one for its end."""
    head = {k: value for k, value in answer.items() if k not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choice in answer["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": k, **call} for k, call in enumerate(calls)]
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": None}
        yield {**head, "choices": [{**end, "delta": delta}]}
        yield {**head, "choices": [{**end, "finish_reason": choice.get("finish_reason")}]}


def plan_of(call: Call) -> Plan:
    """Reads what is private in a request, and what is sent in its place.

    Raises:
        Failure: Something that cannot be released.
    """
    body = _request(call.policy, call.gateway.settings.upstream.models)(call.body, "")
    messages = body.pop("messages")
    transcript = transcript_of(messages, public_system=call.policy.system == "public")
    if "tool_choice" in body:
        fields.require_choice(body)
    return Plan(
        transcript=transcript,
        conversation=named(call),
        build=lambda sent: {**body, "messages": list(map(_copy, messages, sent))},
    )


def transcript_of(messages: Any, *, public_system: bool) -> list[Message]:
    """Reads the messages of a request.

    Args:
        messages: Private.
        public_system: Whether system prompts go out as they are.

    Raises:
        Failure: Something that cannot be released; names its place.
    """
    transcript, known = list[Message](), set[str]()
    for place, message in enumerate(_MESSAGES(messages, "messages")):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            transcript.append(_said(message, where))
            known |= {call.id for call in transcript[-1].calls}
            continue
        if not isinstance(role, str) or role not in _ROLES:
            raise refuse(f"{where}.role", f"one of {', '.join(_ROLES)}")
        checked = (_TOOL if role == "tool" else _MESSAGE)(message, where)
        if role == "tool" and checked["tool_call_id"] not in known:
            raise refuse(f"{where}.tool_call_id", "that of a call in an earlier message")
        public = public_system and _ROLES[role] == "system"
        texts = tuple(checked["content"])
        transcript.append(Message(role=_ROLES[role], texts=texts, public=public))
    return transcript


def _copy(message: Mapping[str, Any], sent: Message) -> dict[str, Any]:
    """The message for the upstream, from what goes out for it."""
    if sent.role == "assistant":
        return _answer(sent)
    content: Any = sent.text
    if isinstance(message["content"], list):
        content = [{"type": "text", "text": part} for part in sent.texts]
    named = {k: message[k] for k in ("tool_call_id",) if sent.role == "tool"}
    return {"role": message["role"], "content": content, **named}


def _answer(sent: Message) -> dict[str, Any]:
    if not sent.calls:
        return {"role": "assistant", "content": sent.text, **sent.extra}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in sent.calls
    ]
    return {"role": "assistant", "content": sent.text or None, **sent.extra, "tool_calls": calls}


def _content(value: Any, where: str) -> list[str]:
    """Texts; any other kind of part is refused."""
    if isinstance(value, str):
        return [text(value, where)]
    if not isinstance(value, list):
        raise refuse(where, "a text, or a list of parts of text")
    return [part["text"] for part in fields.many(_part, most=_MOST)(value, where)]


def _part(value: Any, where: str) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    one_of("text")(kind, f"{where}.type")
    return _TEXT_PART(value, where)


def _said(message: Any, where: str) -> Message:
    """An assistant's message; what else a client keeps of it is dropped."""
    checked = _ASSISTANT(message, where)
    refusal = checked.get("refusal")
    return Message(
        role="assistant",
        texts=tuple(checked.get("content", ())),
        calls=tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in checked.get("tool_calls", ())
        ),
        extra={"refusal": refusal} if refusal else {},
    )


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> Check:
    """The allow-list under a policy."""
    tokens = whole(1, 10_000_000)
    return record(
        {
            "model": one_of(*models),
            "messages": fields.anything,
            **fields.SAMPLING,
            "stream_options": fields.STREAM_OPTIONS,
            "max_tokens": tokens,
            "max_completion_tokens": tokens,
            "logprobs": flag,
            "top_logprobs": whole(0, 20),
            "parallel_tool_calls": flag,
            "reasoning_effort": one_of("none", "minimal", "low", "medium", "high", "xhigh"),
            "verbosity": one_of("low", "medium", "high"),
            "service_tier": one_of("auto", "default", "flex", "priority"),
            "store": flag,
            "stop": fields.stop(policy),
            "response_format": fields.response_format(policy),
            "tools": fields.tools_of(policy),
            "tool_choice": fields.tool_choice(),
        },
        ("model", "messages"),
    )


_TEXT_PART = record({"type": one_of("text"), "text": text}, ("type", "text"))
_MESSAGES = fields.many(fields.anything, most=_MOST)
_MESSAGE = record({"role": text, "content": _content}, ("role", "content"))
_TOOL = record(
    {"role": text, "content": _content, "tool_call_id": text}, ("role", "content", "tool_call_id")
)
_CALL = record(
    {
        "id": text,
        "type": one_of("function"),
        "index": whole(0, _MOST),
        "function": record({"name": text, "arguments": text}, ("name", "arguments")),
    },
    ("id", "function"),
)
_ASSISTANT = record(
    {
        "role": text,
        "content": _content,
        "refusal": text,
        "tool_calls": fields.many(_CALL, least=0, most=_MOST),
        "annotations": fields.anything,
        "reasoning_content": fields.anything,
        "provider_specific_fields": fields.anything,  # LiteLLM's
    },
    ("role",),
)
