"""Items of the Responses API as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_middleware.conversation.messages import Message, Role
from dp_middleware.conversation.response_items import THOUGHT, answer_of, item_of
from dp_middleware.gateway import fields
from dp_middleware.gateway.fields import anything, one_of, record, refuse, text

_KINDS = ("message", "function_call", "function_call_output", "reasoning")
_MOST = 2000  # items


def transcript_of(given: Any) -> list[Message]:
    """Reads the items of an input, one message each."""
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
    given = item.get("role") if kind == "message" else "assistant"
    role = one_of("system", "developer", "user", "assistant")(given, f"{where}.role")
    if role == "assistant":
        answer = answer_of(_ANSWERS[kind](item, where))
        assert answer is not None  # what was checked is one
        return answer
    own: Role = "user" if role == "user" else "system"
    return Message(role=own, texts=fields.texts_in(_MESSAGE(item, where)["content"]))


def items_of(given: Any, sent: Sequence[Message]) -> list[dict[str, Any]]:
    """Returns the items for the upstream, from what goes out for them."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [item_of(*pair) for pair in zip(items, sent, strict=True)]


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
    {"type": text, "status": _STATUS, **dict.fromkeys(THOUGHT, anything)},
)
_ANSWERS = {"message": _ASSISTANT, "function_call": _CALL, "reasoning": _REASONING}
