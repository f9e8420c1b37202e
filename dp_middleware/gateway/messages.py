"""Chat messages as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.gateway import fields
from dp_middleware.gateway.fields import record, refuse, text

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
}
_MOST = 2000  # messages, or parts of one


def transcript_of(messages: Any, *, public_system: bool) -> list[Message]:
    """Reads the messages of a request.

    Args:
        messages: Private.
        public_system: Whether system prompts go out as they are.

    Raises:
        Failure: Something that cannot be released; names its place.
    """
    transcript, known = list[Message](), set[str]()
    fields.many(lambda value, _: value, most=_MOST)(messages, "messages")
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            transcript.append(_said(message, where))
            known |= {call.id for call in transcript[-1].calls}
            continue
        role = fields.one_of(*_ROLES)(role, f"{where}.role")
        checked = (_TOOL if role == "tool" else _MESSAGE)(message, where)
        if role == "tool" and checked["tool_call_id"] not in known:
            raise refuse(f"{where}.tool_call_id", "that of a call in an earlier message")
        own = _ROLES[role]
        public = public_system and own == "system"
        transcript.append(Message(role=own, texts=tuple(checked["content"]), public=public))
    return transcript


def copies_of(
    messages: Sequence[Mapping[str, Any]], sent: Sequence[Message]
) -> list[dict[str, Any]]:
    """Returns the messages for the upstream, from what goes out for them."""
    return [_copy(*pair) for pair in zip(messages, sent, strict=True)]


def _copy(message: Mapping[str, Any], sent: Message) -> dict[str, Any]:
    if sent.role == "assistant":
        return answer_to_send(sent)
    content: Any = sent.text
    if isinstance(message["content"], list):
        content = [{"type": "text", "text": each} for each in sent.texts]
    named = {k: message[k] for k in ("tool_call_id",) if sent.role == "tool"}
    return {"role": message["role"], "content": content, **named}


def answer_to_send(sent: Message) -> dict[str, Any]:
    """Returns an assistant's message in this protocol."""
    message: dict[str, Any] = {"role": "assistant", "content": sent.text or None, **sent.extra}
    if sent.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in sent.calls
        ]
    elif message["content"] is None:
        message["content"] = ""
    return message


def _content(value: Any, where: str) -> list[str]:
    """Texts; any other kind of part is refused."""
    if isinstance(value, str):
        return [text(value, where)]
    if not isinstance(value, list):
        raise refuse(where, "a text, or a list of parts of text")
    parts = fields.many(_part, most=_MOST)(value, where)
    return [part["text"] for part in parts]


def _part(value: Any, where: str) -> dict[str, Any]:
    kind = value.get("type") if isinstance(value, dict) else None
    fields.one_of("text")(kind, f"{where}.type")
    checked: dict[str, Any] = _TEXT_PART(value, where)
    return checked


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


_TEXT_PART = record({"type": fields.one_of("text"), "text": text}, ("type", "text"))
_MESSAGE = record({"role": text, "content": _content}, ("role", "content"))
_TOOL = record(
    {"role": text, "content": _content, "tool_call_id": text}, ("role", "content", "tool_call_id")
)
_CALL = record(
    {
        "id": text,
        "type": fields.one_of("function"),
        "index": fields.whole(0, _MOST),
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
