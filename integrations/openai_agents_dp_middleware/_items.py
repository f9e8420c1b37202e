"""Released copies of a model's input, and the filter that makes them before each call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData
from pydantic import BaseModel

from dp_middleware.conversation.dialogue import INSTRUCTIONS, Dialogue, Say
from dp_middleware.conversation.transcript import Unknown
from dp_middleware.errors import ParameterError

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

    def build(say: Say) -> tuple[str | None, list[Any]]:
        calls: set[str] = set()
        told = None if instructions is None else say(INSTRUCTIONS, instructions)
        return told, [_copy(item, f"input item {k}", calls, say) for k, item in enumerate(items)]

    return dialogue.rewritten(build, unknown=unknown)


def _copy(item: Any, where: str, calls: set[str], say: Say) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise ParameterError(f"{where}: expected an item as a dict, got {type(item).__name__}")
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" and role in _ROLES:
        content = _content(item.get("content"), where, _ROLES[role], say)
        return {"role": role, "type": kind, "content": content}
    if kind == "function_call_output" and item.get("call_id") in calls:
        output = _content(item.get("output"), where, "tool", say)
        return {"call_id": item["call_id"], "type": kind, "output": output}
    if (kind == "message" and role == "assistant") or kind in _ANSWERS:
        if kind == "function_call":
            calls.add(str(item.get("call_id")))
        answer: dict[str, Any] = json.loads(say("assistant", words_of(item)))
        return answer
    raise ParameterError(
        f"{where}: expected a message of text, a call of a function or its output behind it; "
        "other items cannot be released"
    )


def _content(content: Any, where: str, role: str, say: Say) -> Any:
    if isinstance(content, str):
        return say(role, content)
    for part in content if isinstance(content, list) else [None]:
        if not isinstance(part, Mapping) or part.get("type") != "input_text":
            raise ParameterError(f"{where}: only text can be released; take other content out")
    return [{"type": "input_text", "text": say(role, part["text"])} for part in content]


def words_of(item: Mapping[str, Any]) -> str:
    """All that a model is told of an item of its answer, as JSON; a refusal is text."""
    kind, content = item.get("type", "message"), item.get("content", ())
    if kind != "message":
        kept = {name: item[name] for name in _ANSWERS[kind] if item.get(name) is not None}
        return json.dumps({"type": kind, **kept}, sort_keys=True, default=str)
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    if not all(part.get("type") in _PARTS for part in parts):
        raise ParameterError("only text and refusals of an answer can be sent again")
    text = "".join(part[_PARTS[part["type"]]] for part in parts)
    return json.dumps({"role": "assistant", "content": text}, sort_keys=True)


def forms_of(item: BaseModel) -> list[str]:
    """What an item of an answer may be when it is sent again; empty for one that cannot be."""
    said = item.model_dump(mode="json", exclude_none=True)
    if said.get("type") not in ("message", *_ANSWERS):
        return []
    return [words_of(said), words_of({k: v for k, v in said.items() if k != "id"})]
