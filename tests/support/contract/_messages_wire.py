"""How Anthropic's Messages API spells answers, whole and streamed."""

import json
from typing import Any

from support.contract._openai_wire import Said

_HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "model": "gpt-4o-mini"}


def message(said: Said) -> dict[str, Any]:
    """A message with a text, or with calls of tools."""
    calls = isinstance(said, list)
    reason = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**_HEAD, "content": _content(said), **reason, "usage": usage}


def _content(said: Said) -> list[dict[str, Any]]:
    if isinstance(said, list):
        return [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in said
        ]
    thought = {"type": "thinking", "thinking": said or "", "signature": "c2lnbmVk"}
    return [thought, {"type": "text", "text": said or "", "citations": None}]


def message_events(said: Said) -> bytes:
    """Server-sent events: every text and every argument in pieces."""
    whole = message(said)
    begun = {**whole, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for place, block in enumerate(whole["content"]):
        events += _block_events(block, place)
    end = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
    events.append({"type": "message_stop"})
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


def _block_events(block: dict[str, Any], place: int) -> list[dict[str, Any]]:
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    start = {name: empty.get(name, value) for name, value in block.items()}
    kind = {"text": "text", "thinking": "thinking", "tool_use": "input"}[block["type"]]
    text = json.dumps(block["input"]) if kind == "input" else block[kind]
    name = "partial_json" if kind == "input" else kind
    delta = "input_json_delta" if kind == "input" else f"{kind}_delta"
    pieces = [text[k : k + 3] for k in range(0, len(text), 3)]
    deltas: list[dict[str, Any]] = [{"type": delta, name: piece} for piece in pieces]
    if "signature" in block:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return [
        {"type": "content_block_start", "index": place, "content_block": start},
        *({"type": "content_block_delta", "index": place, "delta": each} for each in deltas),
        {"type": "content_block_stop", "index": place},
    ]
