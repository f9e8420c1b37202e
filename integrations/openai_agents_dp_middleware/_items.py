"""Released copies of a model's input, and the filter that makes them before each call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData
from pydantic import BaseModel

from dp_middleware.errors import ParameterError
from dp_middleware.sessions.boundary import guarded
from dp_middleware.sessions.dialogue import Dialogue, Said
from dp_middleware.sessions.transcript import Unknown

_ROLES = {"user": "user", "system": "system", "developer": "system"}
_ANSWERS = {  # what is kept of an answer: nothing else is sent again
    "function_call": ("call_id", "name", "arguments"),
    "reasoning": ("id", "summary", "content", "encrypted_content"),
}
_PARTS = {"output_text": "text", "refusal": "refusal"}  # of a message


def release_input(
    session: object, *, public_instructions: Collection[str] = (), conversation: str | None = None
) -> CallModelInputFilter:
    """A ``call_model_input_filter`` that releases instructions, messages and outputs of tools.

    For models that the SDK finds by name. It sees no answers, so **answers in the input are
    declared public**: they are sent as they are, or under new pseudonyms, and nothing is restored.
    :class:`DPModel` has none of these limits.

    Args:
        session: As of :class:`DPModel`, and so the rest.
    """
    dialogue = Dialogue(session, conversation=conversation, public=public_instructions)

    async def released(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        instructions, items = await asyncio.to_thread(
            released_items, dialogue, given.instructions, given.input, "pass"
        )
        return ModelInputData(input=items, instructions=instructions)

    return released


def released_items(
    dialogue: Dialogue, instructions: str | None, given: str | Sequence[Any], unknown: Unknown
) -> tuple[str | None, list[Any]]:
    """What may be sent of instructions and input items, as new objects.

    Raises:
        ParameterError: An item of another kind, named by its place.
        DPMiddlewareError: The release failed. Holds no text.
    """
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    calls: set[str] = set()
    read = [guarded(_read, item, f"input item {k}", calls) for k, item in enumerate(items)]
    history = [said for texts, _ in read for said in texts]
    rules = [] if instructions is None else [instructions]
    told, sent = dialogue.release(rules, history, unknown=unknown)
    released = iter(sent)
    built = [_built([next(released) for _ in texts], kept) for texts, kept in read]
    return (told[0] if told else None), built


def _read(item: Any, where: str, calls: set[str]) -> tuple[list[Said], dict[str, Any]]:
    """The texts of an item with their roles, and what else of it is sent."""
    if not isinstance(item, Mapping):
        raise ParameterError(f"{where}: expected an item as a dict, got {type(item).__name__}")
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" and role in _ROLES:
        texts = _texts(item.get("content"), where)
        return [(_ROLES[role], text) for text in texts], {"role": role, "type": "message"}
    if kind == "function_call_output" and item.get("call_id") in calls:
        texts = _texts(item.get("output"), where)
        return [("tool", text) for text in texts], {"call_id": item["call_id"], "type": kind}
    if (kind == "message" and role == "assistant") or kind in _ANSWERS:
        if kind == "function_call":
            calls.add(str(item.get("call_id")))
        return [("assistant", words_of(item))], {}
    raise ParameterError(
        f"{where}: expected a message of text, a call of a function or its output behind it; "
        "other items cannot be released"
    )


def _texts(content: Any, where: str) -> list[str]:
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    for part in parts if isinstance(parts, list) else [None]:
        if not isinstance(part, Mapping) or part.get("type") != "input_text":
            raise ParameterError(f"{where}: only text can be released; take other content out")
    return [part["text"] for part in parts]


def _built(texts: list[str], kept: dict[str, Any]) -> dict[str, Any]:
    if not kept:
        answer: dict[str, Any] = json.loads(texts[0])
        return answer
    content = [{"type": "input_text", "text": text} for text in texts]
    whole = texts[0] if len(texts) == 1 else content
    return {**kept, "output" if kept["type"] == "function_call_output" else "content": whole}


def words_of(item: Mapping[str, Any]) -> str:
    """All that a model is told of an item of its answer, as JSON."""
    kind = item.get("type", "message")
    said: dict[str, Any]
    if kind == "message":
        said = {"role": "assistant", "content": _words(item.get("content"))}
    else:
        kept = {name: item.get(name) for name in _ANSWERS[kind]}
        said = {"type": kind, **{name: value for name, value in kept.items() if value is not None}}
    return json.dumps(said, sort_keys=True, default=str)


def forms_of(item: BaseModel) -> list[str]:
    """What an item of an answer may be when it is sent again; empty for one that cannot be."""
    said = item.model_dump(mode="json", exclude_none=True)
    if said.get("type") not in ("message", *_ANSWERS):
        return []
    return [words_of(said), words_of({k: v for k, v in said.items() if k != "id"})]


def _words(content: Any) -> str:
    """The text of an answer's message, whichever way it is kept; a refusal is text."""
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    names = [_PARTS.get(part["type"]) for part in parts]
    if not all(names):
        raise ParameterError("only text and refusals of an answer can be sent again")
    return "".join(part[name] for part, name in zip(parts, names, strict=True))
