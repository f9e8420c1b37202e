"""How the OpenAI protocol spells answers, streams and embeddings."""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any

_DIMENSIONS = 8  # of every embedding


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that the model asks for.

    Attributes:
        name: Of the tool.
        arguments: JSON-ready.
        id: Distinct within a conversation.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = "call-1"


Said = str | list[ToolCall] | None
"""Text, tool calls, or a null content."""


def completion(said: list[Said]) -> dict[str, Any]:
    """A chat completion with one choice per answer."""
    choices = [
        {"index": k, "finish_reason": _reason(each), "message": _message(each)}
        for k, each in enumerate(said)
    ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": choices,
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def events(said: Said) -> bytes:
    """Server-sent events, one per word with the blank before it, or one per tool call."""
    deltas: list[dict[str, Any]]
    if isinstance(said, list):
        message = _message(said)
        calls = enumerate(message["tool_calls"])
        deltas = [{**message, "tool_calls": [{"index": k, **call}]} for k, call in calls]
    else:
        words = [] if said is None else said.split(" ")
        pieces = [word if not k else f" {word}" for k, word in enumerate(words)]
        deltas = [{"role": "assistant", "content": ""}, *({"content": p} for p in pieces)]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": _reason(said)})
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
    lines = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _reason(said: Said) -> str:
    return "tool_calls" if isinstance(said, list) else "stop"


def _message(said: Said) -> dict[str, Any]:
    if not isinstance(said, list):
        return {"role": "assistant", "content": said}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in said
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def embeddings(request: dict[str, Any]) -> dict[str, Any]:
    """One vector per input, as numbers or in base64, as asked for."""
    given = request["input"]
    inputs = given if isinstance(given, list) else [given]
    packed = request.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": k, "embedding": _vector(each, packed)}
        for k, each in enumerate(inputs)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": "embedder", "data": data, "usage": usage}


def _vector(text: Any, packed: bool) -> list[float] | str:
    """A function of the text alone."""
    digest = hashlib.sha256(json.dumps(text).encode()).digest()[:_DIMENSIONS]
    vector = [byte / 128 - 1 for byte in digest]
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{_DIMENSIONS}f", *vector)).decode()
