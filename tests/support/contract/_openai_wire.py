"""How the OpenAI protocol spells answers, streams and embeddings.

What is said is a text, calls of tools, or ``None`` for a null content.
"""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any

MODEL = "gpt-4o-mini"
_DIMENSIONS = 8  # of every embedding
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


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


def pieces_of(text):
    """Its words, each with the blank before it."""
    words = text.split(" ")
    return [word if not k else f" {word}" for k, word in enumerate(words)]


def server_sent(events, *, named=True):
    """Events as bytes: by their types, or unnamed until a last word."""
    lines = []
    for event in events:
        lines += [f"event: {event['type']}\n"] if named else []
        lines.append(f"data: {json.dumps(event)}\n\n")
    return "".join([*lines, "" if named else "data: [DONE]\n\n"]).encode()


def completion(said):
    choices = [
        {"index": k, "finish_reason": _reason(each), "message": _message(each)}
        for k, each in enumerate(said)
    ]
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
    return {**head, "choices": choices, "usage": _USAGE}


def events(said):
    """A piece per word, or one per tool call."""
    if isinstance(said, list):
        message = _message(said)
        calls = enumerate(message["tool_calls"])
        deltas = [{**message, "tool_calls": [{"index": k, **call}]} for k, call in calls]
    else:
        pieces = [] if said is None else pieces_of(said)
        deltas = [{"role": "assistant", "content": ""}, *({"content": p} for p in pieces)]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _reason(said)})
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return server_sent([{**head, "choices": [choice]} for choice in choices], named=False)


def _reason(said):
    return "tool_calls" if isinstance(said, list) else "stop"


def _message(said):
    if not isinstance(said, list):
        return {"role": "assistant", "content": said}
    functions = [{"name": c.name, "arguments": json.dumps(c.arguments)} for c in said]
    calls = [
        {"id": call.id, "type": "function", "function": function}
        for call, function in zip(said, functions, strict=True)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def text_completion(text):
    choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL}
    return {**head, "choices": [choice], "usage": _USAGE}


def text_events(text):
    """A piece per word."""
    whole = text_completion("")
    end, reason = whole.pop("choices")[0], {"finish_reason": None}
    del whole["usage"]
    choices = [*({**end, "text": piece, **reason} for piece in pieces_of(text)), end]
    return server_sent([{**whole, "choices": [choice]} for choice in choices], named=False)


def embeddings(request):
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


def _vector(text, packed):
    digest = hashlib.sha256(json.dumps(text).encode()).digest()[:_DIMENSIONS]
    vector = [byte / 128 - 1 for byte in digest]
    bits = struct.pack(f"<{_DIMENSIONS}f", *vector)
    return base64.b64encode(bits).decode() if packed else vector
