"""How Anthropic's Messages API spells answers, whole and streamed."""

import json

from support.contract._openai_wire import MODEL, server_sent

_HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL}
_EMPTY = {"text": "", "thinking": "", "signature": "", "input": {}}


def message(said):
    is_calls = isinstance(said, list)
    reason = {"stop_reason": "tool_use" if is_calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    thought = {"type": "thinking", "thinking": said or "", "signature": "c2lnbmVk"}
    content = [thought, {"type": "text", "text": said or "", "citations": None}]
    if is_calls:
        calls = [{"id": call.id, "name": call.name, "input": call.arguments} for call in said]
        content = [{"type": "tool_use", **call} for call in calls]
    return {**_HEAD, "content": content, **reason, "usage": usage}


def message_events(said):
    whole = message(said)
    begun = {**whole, "content": [], "stop_reason": None}
    events = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for place, block in enumerate(whole["content"]):
        events += _block_events(block, {"index": place})
    end = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}})
    return server_sent([*events, {"type": "message_stop"}])


def _block_events(block, at):
    start = {name: _EMPTY.get(name, value) for name, value in block.items()}
    kind = block["type"]
    if kind == "tool_use":
        text, delta, name = json.dumps(block["input"]), "input_json_delta", "partial_json"
    else:
        text, delta, name = block[kind], f"{kind}_delta", kind
    deltas = [{"type": delta, name: text[k : k + 3]} for k in range(0, len(text), 3)]
    if "signature" in block:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return [
        {"type": "content_block_start", **at, "content_block": start},
        *({"type": "content_block_delta", **at, "delta": each} for each in deltas),
        {"type": "content_block_stop", **at},
    ]
