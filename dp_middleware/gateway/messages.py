"""Chat messages: what is private in them, and their released copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.conversation.session import Item
from dp_middleware.gateway import fields
from dp_middleware.gateway.fields import record, refuse, text
from dp_middleware.gateway.words import Said, ToolCall

_ROLES = {"system": "system", "developer": "system", "user": "user", "tool": "tool"}
_MOST = 2000  # messages, or parts of one


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A message whose texts are events of their own; how many there are is public.

    Attributes:
        role: As it was sent.
        texts: Private, or words of an answer.
        parts: Whether the content is a list.
        public: Whether the texts go out as they are.
        tool_call_id: Of a call in the same transcript.
    """

    role: str
    texts: tuple[str, ...] = field(repr=False)
    parts: bool = False
    public: bool = False
    tool_call_id: str | None = None

    @property
    def items(self) -> list[Item]:
        """The events."""
        role = "assistant" if self.role == "assistant" else _ROLES[self.role]
        return [] if self.public else [(None, role, each) for each in self.texts]

    def build(self, texts: Iterator[str]) -> dict[str, Any]:
        """The copy, from what goes out for the events."""
        if self.role == "assistant":
            return Said.of_words(next(texts)).message()
        sent = self.texts if self.public else tuple(next(texts) for _ in self.texts)
        message: dict[str, Any] = {"role": self.role, "content": sent[0] if sent else ""}
        if self.parts:
            message["content"] = [{"type": "text", "text": each} for each in sent]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message


def slots_of(messages: Any, *, public_system: bool) -> list[Slot]:
    """The messages of a request.

    Args:
        messages: Private.
        public_system: Whether system prompts go out as they are.

    Raises:
        Failure: Something that cannot be released; names its place.
    """
    slots, known = list[Slot](), set[str]()
    fields.many(lambda value, _: value, most=_MOST)(messages, "messages")
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            said = _said(message, where)
            known |= {call.id for call in said.calls}
            slots.append(Slot(role="assistant", texts=(said.words(),)))
            continue
        role = fields.one_of(*_ROLES)(role, f"{where}.role")
        given = (_TOOL if role == "tool" else _MESSAGE)(message, where)
        if role == "tool" and given["tool_call_id"] not in known:
            raise refuse(f"{where}.tool_call_id", "that of a call in an earlier message")
        slots.append(
            Slot(
                role=role,
                texts=tuple(given["content"]),
                parts=isinstance(message["content"], list),
                public=public_system and _ROLES[role] == "system",
                tool_call_id=given.get("tool_call_id"),
            )
        )
    return slots


def items_of(slots: Sequence[Slot]) -> list[Item]:
    """The events of a transcript."""
    return [item for slot in slots for item in slot.items]


def _content(value: Any, where: str) -> list[str]:
    """Texts; any other kind of part is refused."""
    if isinstance(value, str):
        return [text(value, where)]
    if not isinstance(value, list):
        raise refuse(where, "a text, or a list of parts of text")
    parts = fields.many(_PART, most=_MOST)(value, where)
    return [part.get("text", part.get("refusal", "")) for part in parts]


def _part(value: Any, where: str) -> dict[str, Any]:
    kind = value.get("type") if isinstance(value, dict) else None
    fields.one_of("text")(kind, f"{where}.type")
    checked: dict[str, Any] = _TEXT_PART(value, where)
    return checked


def _said(message: Any, where: str) -> Said:
    """An assistant's message; what else a client keeps of it is dropped."""
    given = _ASSISTANT(message, where)
    calls = [
        ToolCall(
            id=call["id"],
            name=call["function"]["name"],
            arguments=call["function"]["arguments"],
        )
        for call in given.get("tool_calls", ())
    ]
    words = "".join(given.get("content", ()))
    return Said(text=words, refusal=given.get("refusal", ""), calls=calls)


_PART = _part
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
