"""How OpenAI's Responses API and its older completions spell answers, whole and streamed."""

import json
from typing import Any

from support.contract._openai_wire import Said


def response(said: Said, number: int) -> dict[str, Any]:
    """A response with one message, or with calls of tools."""
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-4o-mini",
        "output": _output(said),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "previous_response_id": None,
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def _output(said: Said) -> list[dict[str, Any]]:
    if isinstance(said, list):
        return [
            {
                "type": "function_call",
                "id": f"fc_{k}",
                "call_id": call.id,
                "name": call.name,
                "arguments": json.dumps(call.arguments),
                "status": "completed",
            }
            for k, call in enumerate(said)
        ]
    part = {"type": "output_text", "text": said or "", "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return [{**message, "content": [part]}]


def response_events(said: Said, number: int) -> bytes:
    """Server-sent events: every text in pieces of a word."""
    whole = response(said, number)
    begun = {**whole, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for place, item in enumerate(whole["output"]):
        events += _item_events(item, place)
    events.append({"type": "response.completed", "response": whole})
    lines = [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': k})}\n\n"
        for k, event in enumerate(events)
    ]
    return "".join(lines).encode()


def _item_events(item: dict[str, Any], place: int) -> list[dict[str, Any]]:
    at = {"item_id": item["id"], "output_index": place}
    is_call = item["type"] == "function_call"
    stem = "response.function_call_arguments" if is_call else "response.output_text"
    empty = {**item, "arguments": ""} if is_call else {**item, "content": []}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": place, "item": empty}
    ]
    if not is_call:
        at["content_index"] = 0
        part = item["content"][0]
        added = {"type": "response.content_part.added", "part": {**part, "text": ""}}
        events.append({**at, **added})
    text = item["arguments"] if is_call else item["content"][0]["text"]
    events += [{"type": f"{stem}.delta", **at, "delta": p, "logprobs": []} for p in _pieces(text)]
    if is_call:
        ended = {"type": f"{stem}.done", **at, "arguments": text, "name": item["name"]}
        events.append(ended)
    else:
        events.append({"type": f"{stem}.done", **at, "text": text, "logprobs": []})
        events.append({"type": "response.content_part.done", **at, "part": item["content"][0]})
    return [*events, {"type": "response.output_item.done", "output_index": place, "item": item}]


def text_completion(texts: list[str]) -> dict[str, Any]:
    """Completions of prompts."""
    choices = [
        {"index": k, "text": text, "finish_reason": "stop", "logprobs": None}
        for k, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt-4o-mini"}
    return {**head, "choices": choices, "usage": usage}


def text_events(text: str) -> bytes:
    """Server-sent events of one completion, one per word."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt-4o-mini"}
    choices = [
        {"index": 0, "text": piece, "finish_reason": None, "logprobs": None}
        for piece in _pieces(text)
    ]
    choices.append({"index": 0, "text": "", "finish_reason": "stop", "logprobs": None})
    lines = [f"data: {json.dumps({**head, 'choices': [each]})}\n\n" for each in choices]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word if not k else f" {word}" for k, word in enumerate(words)]
