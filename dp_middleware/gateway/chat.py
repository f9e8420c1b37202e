"""``/v1/chat/completions``: its messages as a transcript and back; whole or streamed answers."""
# ruff: noqa: D102 - the calls are documented in Shown

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.responses import JSONResponse, Response

from dp_middleware.conversation.exchange import Reply
from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.frameworks.inferdpt import for_extractor
from dp_middleware.gateway import fields as f, turns
from dp_middleware.gateway.failures import garbage
from dp_middleware.gateway.service import Call
from dp_middleware.gateway.settings import Policy
from dp_middleware.gateway.upstream import sse
from dp_middleware.models.chat import ChatModel

PATH = "/chat/completions"
_INSTRUCTION = "Answer the message that is the Original Text."
_THREADS = ThreadPoolExecutor(8, "dp-extractor")  # a slow local model keeps no release waiting


async def chat(call: Call) -> Response:
    """Releases the messages, asks the upstream, shows its answer."""
    if call.extractor is not None:
        return await _extracted(await turns.released(call, plan_of), call.extractor)
    return await turns.answered(call, plan_of, PATH, ShownChat)


def plan_of(call: Call) -> turns.Plan:
    """Reads what is private in a request, and what is sent in its place."""
    body = _request(call.policy, call.gateway.settings.upstream.models)(call.body, "")
    messages = body.pop("messages")
    if "tool_choice" in body:
        f.require_choice(body)
    return turns.Plan(
        transcript=transcript_of(messages, public_system=call.policy.system == "public"),
        build=lambda sent: {**body, "messages": list(map(_copy, messages, sent))},
    )


def transcript_of(messages: list[dict[str, Any]], *, public_system: bool) -> list[Message]:
    """Reads the messages of a request, which were checked."""
    transcript, known = list[Message](), set[str]()
    for place, message in enumerate(messages):
        role: Role = "system" if message["role"] == "developer" else message["role"]
        texts = f.texts_in(message.get("content", ()))
        calls = tuple(map(ToolCall.of_openai, message.get("tool_calls", ())))
        known |= {call.id for call in calls}
        if role == "tool" and message["tool_call_id"] not in known:
            where = f"messages[{place}].tool_call_id"
            raise f.refuse(where, "that of a call in an earlier message")
        refusal = message.get("refusal")
        extra = {"refusal": refusal} if refusal else {}
        public = public_system and role == "system"
        transcript.append(Message(role=role, texts=texts, calls=calls, extra=extra, public=public))
    return transcript


def _copy(message: Mapping[str, Any], sent: Message) -> dict[str, Any]:
    """What goes out for a message; of an assistant's nothing but what it said."""
    if sent.role == "assistant":
        calls = {"tool_calls": [call.to_openai() for call in sent.calls]} if sent.calls else {}
        content = sent.text or (None if calls else "")
        return {"role": "assistant", "content": content, **sent.extra, **calls}
    parts = [{"type": "text", "text": part} for part in sent.texts]
    is_plain = "type" not in message["content"][0]
    own = {k: message[k] for k in ("tool_call_id",) if sent.role == "tool"}
    return {"role": message["role"], "content": sent.text if is_plain else parts, **own}


class ShownChat(turns.Shown):
    """Chats; several choices are several answers."""

    ends = turns.DONE

    def __init__(self, turn: turns.Turn) -> None:
        super().__init__(turn)
        self.replies: dict[int, Reply] = {}  # by the places of their choices
        self._ended: set[int] = set()

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        shown = self.shown(answer)
        self.note()
        return shown

    def shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Returns what is sent for a whole answer."""
        choices = [
            {**choice, "message": self._shown(place, choice["message"], whole=True)}
            for place, choice in enumerate(answer["choices"])
        ]
        if not choices:
            raise garbage()
        return {**answer, "choices": choices}

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        before, choices = list[dict[str, Any]](), []
        for choice in event.get("choices") or ():
            place = int(choice.get("index", 0))
            if choice.get("finish_reason"):
                self._ended.add(place)
            choices.append(self._fed(choice, place, before))
        head = {name: value for name, value in event.items() if name != "usage"}
        return [*({**head, "choices": [own]} for own in before), {**event, "choices": choices}]

    def _fed(
        self, choice: dict[str, Any], place: int, before: list[dict[str, Any]]
    ) -> dict[str, Any]:
        delta = self._shown(place, choice.get("delta") or {})
        if place in self._ended and (rest := _rest(self.replies[place])):
            held = {"index": place, "finish_reason": None}
            before += [{**held, "delta": delta}, {**held, "delta": rest}]
            delta = {}
        return {**choice, "delta": delta}

    def _shown(self, place: int, said: dict[str, Any], *, whole: bool = False) -> dict[str, Any]:
        if place not in self.replies:
            self.replies[place] = Reply(self.exchange)
        reply, shown = self.replies[place], dict(said)
        for name in ("content", "refusal"):
            if said.get(name) is not None:
                shown[name] = reply.text(said[name], name) + (reply.close(name) if whole else "")
        if calls := said.get("tool_calls"):
            shown["tool_calls"] = [_shown_call(reply, *call, whole) for call in enumerate(calls)]
        return shown

    def note(self, *, left: bool = False) -> bool:
        for reply in self.replies.values():
            reply.end(left=left)
        return bool(self._ended) and self._ended == self.replies.keys()


def _shown_call(reply: Reply, place: int, call: dict[str, Any], whole: bool) -> dict[str, Any]:
    function, place = call.get("function") or {}, int(call.get("index", place))
    if not reply.has_call(place):
        reply.call(place, str(call["id"]), str(function["name"]))
    if function.get("arguments") is None:
        return call
    arguments = reply.arguments(function["arguments"], place)
    arguments += reply.close(place) if whole else ""
    return {**call, "function": {**function, "arguments": arguments}}


def _rest(reply: Reply) -> dict[str, Any]:
    rests = reply.close_all()
    delta: dict[str, Any] = {name: rest for name, rest in rests.items() if isinstance(name, str)}
    calls = [
        {"index": place, "function": {"arguments": rest}}
        for place, rest in rests.items()
        if isinstance(place, int)
    ]
    return {**delta, "tool_calls": calls} if calls else delta


async def _extracted(turn: turns.Turn, extractor: ChatModel) -> Response:
    """Shows what a local model makes of the answer, which is waited for whole."""
    body = {k: value for k, value in turn.body.items() if k not in ("stream", "stream_options")}
    answer = await turn.call.gateway.upstream.ask(PATH, body)
    shown = await turns.in_thread(lambda: turns.read(_fitted, turn, extractor, answer), _THREADS)
    if not turn.body.get("stream"):
        return JSONResponse(shown, headers=turn.headers)
    return Response(_chunk(shown), media_type="text/event-stream", headers=turn.headers)


def _fitted(turn: turns.Turn, extractor: ChatModel, answer: dict[str, Any]) -> dict[str, Any]:
    """Fits it to the user's last message and what tools found for that; calls stay as they are."""
    transcript, chat = turn.plan.transcript, ShownChat(turn)
    last = max((k for k, m in enumerate(transcript) if m.role == "user"), default=0)
    asked = [m for m in transcript[last:] if m.role in ("user", "tool")]
    private = "\n\n".join(text for message in asked for text in message.texts)
    shown = chat.shown(answer)
    for choice, reply in zip(shown["choices"], chat.replies.values(), strict=True):
        visible = reply.said("shown")
        if visible.text.strip() and not visible.calls:
            local = extractor(for_extractor(private, visible.text, _INSTRUCTION))
            visible = replace(visible, texts=(local,))
            choice["message"]["content"] = local
        turn.exchange.note_extracted((reply.said(), visible))
    return shown


def _chunk(answer: dict[str, Any]) -> bytes:
    """A whole answer as a stream of one event."""
    choices = []
    for choice in answer["choices"]:
        delta = dict(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": k, **call} for k, call in enumerate(calls)]
        ended = choice.get("finish_reason")
        choices.append({"index": choice.get("index", 0), "delta": delta, "finish_reason": ended})
    head = {name: value for name, value in answer.items() if name != "usage"}
    return sse({**head, "object": "chat.completion.chunk", "choices": choices}) + turns.DONE


@cache
def _request(policy: Policy, models: tuple[str, ...]) -> f.Check:
    tokens = f.whole(1, 10_000_000)
    return f.record(
        {
            "model": f.one_of(*models),
            "messages": f.many(f.by("role", _MESSAGES), most=f.MOST),
            **f.SAMPLING,
            "stream_options": f.record({"include_usage": f.flag, "include_obfuscation": f.flag}),
            "max_tokens": tokens,
            "max_completion_tokens": tokens,
            "logprobs": f.flag,
            "top_logprobs": f.whole(0, 20),
            "parallel_tool_calls": f.flag,
            "reasoning_effort": f.one_of("none", "minimal", "low", "medium", "high", "xhigh"),
            "verbosity": f.one_of("low", "medium", "high"),
            "service_tier": f.one_of("auto", "default", "flex", "priority"),
            "store": f.flag,
            "stop": f.stop(policy),
            "response_format": f.response_format(policy),
            "tools": f.tools_of(policy),
            "tool_choice": f.tool_choice(),
        },
        ("model", "messages"),
    )


_CONTENT = f.parts_of({"text": f.record({"type": f.text, "text": f.text}, ("text",))})
_MESSAGE = f.record({"role": f.text, "content": _CONTENT}, ("role", "content"))
_TOOL = {"role": f.text, "content": _CONTENT, "tool_call_id": f.text}
_CALL = {
    "id": f.text,
    "type": f.one_of("function"),
    "index": f.whole(0, f.MOST),
    "function": f.record({"name": f.text, "arguments": f.text}, ("name", "arguments")),
}
_ASSISTANT = {
    "role": f.text,
    "content": _CONTENT,
    "refusal": f.text,
    "tool_calls": f.many(f.record(_CALL, ("id", "function")), least=0, most=f.MOST),
    **dict.fromkeys(("annotations", "reasoning_content", "provider_specific_fields"), f.anything),
}
_MESSAGES = {
    **dict.fromkeys(("system", "developer", "user"), _MESSAGE),
    "tool": f.record(_TOOL, tuple(_TOOL)),
    "assistant": f.record(_ASSISTANT, ("role",)),
}
