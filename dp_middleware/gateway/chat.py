"""``/v1/chat/completions``: its messages as a transcript and back; whole or streamed answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Exchange, Reply
from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway import declared, fields
from dp_middleware.gateway.answers import extracted, shown_chat
from dp_middleware.gateway.failures import LACKING, Failure, garbage
from dp_middleware.gateway.fields import Check, flag, one_of, record, refuse, text, whole
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.turns import (
    DONE,
    EventStream,
    Plan,
    in_thread,
    named,
    released,
)

PATH = "/chat/completions"
_MOST = 2000  # messages, or calls in one
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
}


async def chat(call: Call) -> Response:
    """Releases the messages, asks the upstream, shows its answer."""
    turn = await released(call, plan_of)
    if call.extraction is not None:
        return await extracted(turn, PATH, call.extraction)
    if turn.body.get("stream"):
        return EventStream(turn, PATH, ChatStream(turn.exchange), ends=DONE)
    answer = await call.gateway.upstream.ask(PATH, turn.body)
    shown = await in_thread(lambda: shown_chat(turn.exchange, answer))
    return JSONResponse(shown, headers=turn.headers)


def plan_of(call: Call) -> Plan:
    """Reads what is private in a request, and what is sent in its place."""
    body = _request(call.policy, call.gateway.settings.upstream.models)(call.body, "")
    messages = body.pop("messages")
    transcript = transcript_of(messages, public_system=call.policy.system == "public")
    if "tool_choice" in body:
        declared.require_choice(body)
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
        texts = fields.texts_in(checked["content"])
        transcript.append(Message(role=_ROLES[role], texts=texts, public=public))
    return transcript


def _copy(message: Mapping[str, Any], sent: Message) -> dict[str, Any]:
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
    calls = [call.to_openai() for call in sent.calls]
    return {"role": "assistant", "content": sent.text or None, **sent.extra, "tool_calls": calls}


def _said(message: Any, where: str) -> Message:
    """An assistant's message; what else a client keeps of it is dropped."""
    checked = _ASSISTANT(message, where)
    refusal = checked.get("refusal")
    return Message(
        role="assistant",
        texts=fields.texts_in(checked.get("content", ())),
        calls=tuple(map(ToolCall.of_openai, checked.get("tool_calls", ()))),
        extra={"refusal": refusal} if refusal else {},
    )


class ChatStream:
    """The events of a streamed chat."""

    named = False

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._replies: dict[int, Reply] = {}  # by the places of their choices
        self._open: set[int] = set()

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns what is sent for one of the upstream's events; see :class:`EventWriter`."""
        before, choices = list[dict[str, Any]](), []
        try:
            for choice in event.get("choices") or ():
                choices.append(self._shown(choice, int(choice.get("index", 0)), before))
        except DPMiddlewareError:
            raise
        except LACKING:
            raise garbage() from None
        head = {name: value for name, value in event.items() if name != "usage"}
        return [*({**head, "choices": [own]} for own in before), {**event, "choices": choices}]

    def _shown(
        self, choice: dict[str, Any], place: int, before: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """One choice of an event; what was held back stands before its end."""
        reply, delta = self._reply(choice, place), dict(choice.get("delta") or {})
        for name in ("content", "refusal"):
            if isinstance(piece := delta.get(name), str):
                delta[name] = reply.text(piece, name)
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [_shown_call(reply, call) for call in calls]
        if place not in self._open and (rest := _rest(reply)):
            held = {"index": place, "delta": delta, "finish_reason": None}
            before += [held, {**held, "delta": rest}]
            delta = {}
        return {**choice, "delta": delta}

    def _reply(self, choice: dict[str, Any], place: int) -> Reply:
        """The answer at a place, from its first event on."""
        if place not in self._replies:
            self._replies[place] = Reply(self._exchange)
            self._open.add(place)
        if choice.get("finish_reason"):
            self._open.discard(place)
        return self._replies[place]

    def complete(self) -> bool:
        """Tells whether all answers that began have ended."""
        return bool(self._replies) and not self._open

    def broken(self, failure: Failure) -> dict[str, Any]:
        """Returns the event that OpenAI's clients expect."""
        return failure.body()

    def note(self, *, left: bool = False) -> None:
        """Tells the session what was said."""
        for reply in self._replies.values():
            reply.end(left=left)


def _shown_call(reply: Reply, call: dict[str, Any]) -> dict[str, Any]:
    function, place = call.get("function") or {}, int(call.get("index", 0))
    if not reply.has_call(place):
        reply.call(place, str(call["id"]), str(function["name"]))
    piece = function.get("arguments")
    if not isinstance(piece, str):
        return call
    return {**call, "function": {**function, "arguments": reply.arguments(piece, place)}}


def _rest(reply: Reply) -> dict[str, Any]:
    rests = reply.close_all()
    delta: dict[str, Any] = {name: rest for name, rest in rests.items() if isinstance(name, str)}
    calls = [
        {"index": place, "function": {"arguments": rest}}
        for place, rest in rests.items()
        if isinstance(place, int)
    ]
    return {**delta, "tool_calls": calls} if calls else delta


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> Check:
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
            "stop": declared.stop(policy),
            "response_format": declared.response_format(policy),
            "tools": declared.tools_of(policy),
            "tool_choice": declared.tool_choice(),
        },
        ("model", "messages"),
    )


_CONTENT = fields.parts_of(
    {"text": record({"type": one_of("text"), "text": text}, ("type", "text"))}
)
_MESSAGES = fields.many(fields.anything, most=_MOST)
_MESSAGE = record({"role": text, "content": _CONTENT}, ("role", "content"))
_TOOL = record(
    {"role": text, "content": _CONTENT, "tool_call_id": text}, ("role", "content", "tool_call_id")
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
        "content": _CONTENT,
        "refusal": text,
        "tool_calls": fields.many(_CALL, least=0, most=_MOST),
        "annotations": fields.anything,
        "reasoning_content": fields.anything,
        "provider_specific_fields": fields.anything,  # LiteLLM's
    },
    ("role",),
)
