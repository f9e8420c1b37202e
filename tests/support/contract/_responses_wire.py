"""How OpenAI's Responses API spells answers, whole and streamed."""

import json

from support.contract._openai_wire import MODEL, pieces_of, server_sent

_USAGE = {
    **{"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}},
    **{"output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2},
}
_HEAD = {
    **{"object": "response", "created_at": 1, "model": MODEL, "usage": _USAGE, "metadata": {}},
    **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
    **{"temperature": 1.0, "top_p": 1.0, "previous_response_id": None},
    **dict.fromkeys(("error", "incomplete_details", "instructions")),
}
_DONE = {"status": "completed"}


def response(said, number):
    return {**_HEAD, **_DONE, "id": f"resp_{number}", "output": _output(said)}


def _output(said):
    if isinstance(said, list):
        calls = [
            {"call_id": call.id, "name": call.name, "arguments": json.dumps(call.arguments)}
            for call in said
        ]
        kind = {"type": "function_call", **_DONE}
        return [{**kind, "id": f"fc_{k}", **call} for k, call in enumerate(calls)]
    part = {"type": "output_text", "text": said or "", "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", **_DONE}
    return [{**message, "content": [part]}]


def response_events(said, number):
    whole = response(said, number)
    begun = {**whole, "status": "in_progress", "output": []}
    kinds = ("response.created", "response.in_progress")
    events = [{"type": kind, "response": begun} for kind in kinds]
    for place, item in enumerate(whole["output"]):
        events += _item_events(item, place)
    events.append({"type": "response.completed", "response": whole})
    return server_sent([{**event, "sequence_number": k} for k, event in enumerate(events)])


def _item_events(item, place):
    own, at = {"output_index": place}, {"item_id": item["id"], "output_index": place}
    if item["type"] == "function_call":
        stem, text, empty = "response.function_call_arguments", item["arguments"], {"arguments": ""}
        begun = []
        ended = [{"type": f"{stem}.done", **at, "arguments": text, "name": item["name"]}]
    else:
        at["content_index"], (part,) = 0, item["content"]
        stem, text, empty = "response.output_text", part["text"], {"content": []}
        begun = [{"type": "response.content_part.added", **at, "part": {**part, "text": ""}}]
        ended = [{"type": f"{stem}.done", **at, "text": text, "logprobs": []}]
        ended.append({"type": "response.content_part.done", **at, "part": part})
    deltas = [
        {"type": f"{stem}.delta", **at, "delta": piece, "logprobs": []} for piece in pieces_of(text)
    ]
    added = {"type": "response.output_item.added", **own, "item": {**item, **empty}}
    done = {"type": "response.output_item.done", **own, "item": item}
    return [added, *begun, *deltas, *ended, done]
