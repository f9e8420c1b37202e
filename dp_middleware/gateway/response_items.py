"""Items of the Responses API: what is private in them, and their released copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dp_middleware.gateway import fields
from dp_middleware.gateway.fields import Check, anything, one_of, record, refuse, text
from dp_middleware.gateway.words import THOUGHT, Said, ToolCall

_MOST = 2000  # items, or parts of one
_KEPT = ("id", "summary", "content", "encrypted_content")  # of a reasoning item


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An item whose texts are events of their own; how many there are is public.

    Attributes:
        role: Of its events.
        texts: Private, or words of an answer.
        build: The copy, from what goes out for the texts.
        call_id: Of the call that it is, or ...
        answers: ... of the call whose result it is.
    """

    role: str
    texts: tuple[str, ...] = field(repr=False)
    build: Callable[[Iterator[str]], dict[str, Any]]
    call_id: str | None = None
    answers: str | None = None


def entries_of(given: Any) -> list[Entry]:
    """The items of an input.

    Raises:
        Failure: Something that cannot be released; names its place.
    """
    if isinstance(given, str):
        return [_message({"role": "user", "content": given}, "input")]
    items = fields.many(anything, most=_MOST)(given, "input")
    return [_entry(item, f"input[{place}]") for place, item in enumerate(items)]


def _entry(item: Any, where: str) -> Entry:
    if not isinstance(item, dict):
        raise refuse(where, "an object")
    kinds: dict[str, Callable[[Any, str], Entry]] = {
        "message": _message,
        "function_call": _function_call,
        "function_call_output": _output,
        "reasoning": _reasoning,
    }
    kind = one_of(*kinds)(item.get("type", "message"), f"{where}.type")
    return kinds[kind](item, where)


def _message(item: dict[str, Any], where: str) -> Entry:
    role = one_of("system", "developer", "user", "assistant")(item.get("role"), f"{where}.role")
    if role == "assistant":
        parts = _ASSISTANT(item, where)["content"]
        said = Said(
            text="".join(part.get("text", "") for part in parts),
            refusal="".join(part.get("refusal", "") for part in parts),
        )
        return Entry(
            role="assistant",
            texts=(said.words(),),
            build=lambda texts: message_of(Said.of_words(next(texts))),
        )
    texts = tuple(part["text"] for part in _MESSAGE(item, where)["content"])
    listed = isinstance(item["content"], list)

    def build(released: Iterator[str]) -> dict[str, Any]:
        return {"role": role, "content": _built(texts, listed, released)}

    return Entry(role="user" if role == "user" else "system", texts=texts, build=build)


def message_of(said: Said) -> dict[str, Any]:
    """An assistant's message as an item of an input."""
    return {"role": "assistant", "content": said.text or said.refusal}


def _function_call(item: dict[str, Any], where: str) -> Entry:
    given = _CALL(item, where)
    call = ToolCall(id=given["call_id"], name=given["name"], arguments=given["arguments"])

    def build(released: Iterator[str]) -> dict[str, Any]:
        (noted,) = Said.of_words(next(released)).calls
        return {
            "type": "function_call",
            "call_id": noted.id,
            "name": noted.name,
            "arguments": noted.arguments,
        }

    words = Said(calls=[call]).words()
    return Entry(role="assistant", texts=(words,), build=build, call_id=call.id)


def _output(item: dict[str, Any], where: str) -> Entry:
    given = _OUTPUT(item, where)
    texts = tuple(part["text"] for part in given["output"])
    listed = isinstance(item["output"], list)

    def build(released: Iterator[str]) -> dict[str, Any]:
        output = _built(texts, listed, released)
        return {"type": "function_call_output", "call_id": given["call_id"], "output": output}

    return Entry(role="tool", texts=texts, build=build, answers=given["call_id"])


def _reasoning(item: dict[str, Any], where: str) -> Entry:
    words = thought_words(_REASONING(item, where))

    def build(released: Iterator[str]) -> dict[str, Any]:
        try:
            return {"type": "reasoning", **json.loads(next(released))[THOUGHT]}
        except (TypeError, KeyError):
            raise ValueError("not the words of a thought") from None

    return Entry(role="assistant", texts=(words,), build=build)


def thought_words(item: dict[str, Any]) -> str:
    """By what a session knows a reasoning item again."""
    kept = {name: item[name] for name in _KEPT if item.get(name) is not None}
    return json.dumps({THOUGHT: kept}, sort_keys=True, ensure_ascii=False)


def _built(texts: tuple[str, ...], listed: bool, released: Iterator[str]) -> Any:
    sent = [next(released) for _ in texts]
    return [{"type": "input_text", "text": each} for each in sent] if listed else sent[0]


def _parts(kinds: dict[str, Check]) -> Check:
    """A text, or a list of parts of these kinds; always given as parts."""

    def check_part(value: Any, where: str) -> dict[str, Any]:
        kind = value.get("type") if isinstance(value, dict) else None
        name = one_of(*kinds)(kind, f"{where}.type")
        checked: dict[str, Any] = kinds[name](value, where)
        return checked

    def check(value: Any, where: str) -> list[dict[str, Any]]:
        if isinstance(value, str):
            return [{"text": text(value, where)}]
        parts: list[dict[str, Any]] = fields.many(check_part, most=_MOST)(value, where)
        return parts

    return check


_STATUS = one_of("in_progress", "completed", "incomplete")
_INPUT_TEXT = record({"type": text, "text": text}, ("text",))
_INPUT = _parts({"input_text": _INPUT_TEXT})
_SAID = _parts(
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
