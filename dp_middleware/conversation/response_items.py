"""Items of OpenAI's Responses API as messages of a transcript, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_middleware.conversation.messages import Message, ToolCall

# what of a reasoning item is sent again
THOUGHT = ("id", "summary", "content", "encrypted_content")


def answer_of(item: Mapping[str, Any]) -> Message | None:
    """Returns all that a model is told again of an item of its answer; ``None``: it is none."""
    kind, content = item.get("type", "message"), item.get("content") or ()
    if kind == "function_call":
        call = ToolCall(item["call_id"], item["name"], item["arguments"])
        return Message(role="assistant", calls=(call,))
    if kind == "reasoning":
        kept = {name: item[name] for name in THOUGHT if item.get(name) is not None}
        return Message(role="assistant", extra={"type": kind, **kept})
    if kind != "message" or item.get("role") != "assistant":
        return None
    parts = [{"text": content}] if isinstance(content, str) else content
    parts = [part for part in parts if isinstance(part, Mapping)]
    refusal = "".join(part.get("refusal") or "" for part in parts)
    texts = tuple(part.get("text") or "" for part in parts)
    return Message(role="assistant", texts=texts, extra={"refusal": refusal} if refusal else {})


def item_of(given: Mapping[str, Any], sent: Message) -> dict[str, Any]:
    """Makes the item for the model, from the one that was given and what goes out for it."""
    if sent.role == "assistant":
        for call in sent.calls:
            said = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
            return {"type": "function_call", **said}
        if "type" in sent.extra:
            return dict(sent.extra)
        return {"role": "assistant", "content": sent.text or sent.extra.get("refusal", "")}
    field = "output" if sent.role == "tool" else "content"
    content: Any = sent.text
    if not isinstance(given[field], str):
        content = [{"type": "input_text", "text": text} for text in sent.texts]
    if sent.role == "tool":
        return {"type": "function_call_output", "call_id": given["call_id"], "output": content}
    return {"role": given["role"], "content": content}
