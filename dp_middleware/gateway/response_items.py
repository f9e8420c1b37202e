"""Items of the Responses API as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_middleware.conversation.messages import Message, Role, ToolCall
from dp_middleware.gateway import fields
from dp_middleware.gateway.fields import anything, one_of, record, refuse, text

_KINDS = ("message", "function_call", "function_call_output", "reasoning")
_MOST = 2000  # items
_KEPT = ("id", "summary", "content", "encrypted_content")  # of a reasoning item


def transcript_of(given: Any) -> list[Message]:
    """Reads the items of an input, one message each.

    Raises:
        Failure: Something that cannot be released; names its place.
    """
    if isinstance(given, str):
        return [Message(role="user", texts=(text(given, "input"),))]
    items = fields.many(anything, most=_MOST)(given, "input")
    return [_message(item, f"input[{place}]") for place, item in enumerate(items)]


def _message(item: Any, where: str) -> Message:
    if not isinstance(item, dict):
        raise refuse(where, "an object")
    kind = one_of(*_KINDS)(item.get("type", "message"), f"{where}.type")
    if kind == "function_call_output":
        return Message(role="tool", texts=fields.texts_in(_OUTPUT(item, where)["output"]))
    if kind != "message":
        return answer_of((_CALL if kind == "function_call" else _REASONING)(item, where), kind)
    role = one_of("system", "developer", "user", "assistant")(item.get("role"), f"{where}.role")
    if role == "assistant":
        return answer_of(_ASSISTANT(item, where), kind)
    own: Role = "user" if role == "user" else "system"
    return Message(role=own, texts=fields.texts_in(_MESSAGE(item, where)["content"]))


def answer_of(item: dict[str, Any], kind: str) -> Message:
    """Returns what a remote model said in an item of its output."""
    if kind == "function_call":
        call = ToolCall(item["call_id"], item["name"], item["arguments"])
        return Message(role="assistant", calls=(call,))
    if kind == "reasoning":
        kept = {name: item[name] for name in _KEPT if item.get(name) is not None}
        return Message(role="assistant", extra={"type": "reasoning", **kept})
    parts = [part for part in item["content"] if isinstance(part, dict)]
    refusal = "".join(part.get("refusal") or "" for part in parts)
    texts = tuple(part.get("text") or "" for part in parts)
    return Message(role="assistant", texts=texts, extra={"refusal": refusal} if refusal else {})


def items_of(given: Any, sent: Sequence[Message]) -> list[dict[str, Any]]:
    """Returns the items for the upstream, from what goes out for them."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [_item(*pair) for pair in zip(items, sent, strict=True)]


def _item(item: dict[str, Any], sent: Message) -> dict[str, Any]:
    if sent.role != "assistant":
        field = "output" if sent.role == "tool" else "content"
        content: Any = sent.text
        if isinstance(item[field], list):
            content = [{"type": "input_text", "text": each} for each in sent.texts]
        if sent.role == "tool":
            named = {"type": "function_call_output", "call_id": item["call_id"]}
            return {**named, "output": content}
        return {"role": item["role"], "content": content}
    if sent.calls:
        [call] = sent.calls
        said = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        return {"type": "function_call", **said}
    if "type" in sent.extra:
        return dict(sent.extra)
    return {"role": "assistant", "content": sent.text or sent.extra.get("refusal", "")}


_STATUS = one_of("in_progress", "completed", "incomplete")
_INPUT_TEXT = record({"type": text, "text": text}, ("text",))
_INPUT = fields.parts_of({"input_text": _INPUT_TEXT})
_SAID = fields.parts_of(
    {
        "output_text": record(
            {"type": text, "text": text, "annotations": anything, "logprobs": anything}, ("text",)
        ),
        "refusal": record({"type": text, "refusal": text}, ("refusal",)),
    }
)
_MESSAGE = record({"type": text, "role": text, "content": _INPUT}, ("content",))
_ASSISTANT = record(
    {
        "type": text,
        "role": text,
        "content": _SAID,
        "id": text,
        "status": _STATUS,
        "phase": anything,
    },
    ("content",),
)
_CALL = record(
    {
        "type": text,
        "id": text,
        "call_id": text,
        "name": text,
        "arguments": text,
        "status": _STATUS,
    },
    ("call_id", "name", "arguments"),
)
_OUTPUT = record(
    {"type": text, "id": text, "call_id": text, "output": _INPUT, "status": _STATUS},
    ("call_id", "output"),
)
_REASONING = record(
    {"type": text, "status": _STATUS, **dict.fromkeys(_KEPT, anything)},
)
