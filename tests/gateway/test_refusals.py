"""What cannot be released is refused without its value, in places by name; nothing goes out."""

import json

from support.cases import over
from support.gateway import MODEL
from support.texts import CANARY

USER = {"messages": [{"role": "user", "content": "text"}]}
FIELDS = {
    **dict.fromkeys(("user", "safety_identifier", "prompt_cache_key", "function_call"), CANARY),
    **dict.fromkeys(("model", "temperature", "stream", CANARY), CANARY),
    **{"audio": {}, "modalities": ["audio"], "web_search_options": {}, "functions": [], "n": 100},
    **{"metadata": {"a": CANARY}, "stop": {"a": CANARY}, "logit_bias": {"5": 1}},
    "prediction": {"type": "content", "content": CANARY},
    "tool_choice": {"type": "function", "function": {"name": CANARY}},
    "response_format": {"type": CANARY},
    "tools": [{"type": CANARY}],
}
IMAGE_URL = {"type": "image_url", "image_url": {"url": CANARY}}
CONTENTS = [
    *(None, 3, [], "\ud800", [IMAGE_URL]),
    [{"type": "text", "text": "x", "cache_control": CANARY}],
]
MESSAGES = [
    *(CANARY, [], [CANARY], [{"role": CANARY, "content": "x"}], [{"role": "user"}]),
    *([{"role": "user", "content": content}] for content in CONTENTS),
    *([{"role": "user", "content": "x", key: CANARY}] for key in ("name", CANARY)),
    [{"role": "tool", "content": "x", "tool_call_id": CANARY}],
    [{"role": "assistant", "content": CANARY, "tool_calls": [{"id": CANARY}]}],
    [{"role": "function", "content": "x", "name": CANARY}],
]
RESPONSES = [
    {"conversation": CANARY},
    {"prompt": {"id": CANARY}},
    {"metadata": {"a": CANARY}},
    {"background": True},
    {"include": [CANARY]},
    {"text": {"format": {"type": CANARY}}},
    {"tools": [{"type": "web_search"}]},
    {"tool_choice": {"type": "function", "name": CANARY}},
    {"input": [{"type": "item_reference", "id": CANARY}]},
    {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": CANARY}]}]},
    {"input": [{"type": "function_call_output", "call_id": CANARY, "output": "x"}]},
    {"input": [{"type": "reasoning", "id": "r", "summary": [{"text": CANARY}]}]},
    {"instructions": [CANARY]},
    {CANARY: CANARY},
]
TEXTS = [
    *(("/embeddings", {"input": given}) for given in ([1, 2, 3], [[1, 2]], [])),
    ("/embeddings", {"input": CANARY, "user": CANARY}),
    ("/completions", {"prompt": [1, 2]}),
    *(("/completions", {"prompt": "x", **more}) for more in ({"suffix": CANARY}, {"echo": True})),
    ("/completions", {}),
]
USED = {"type": "tool_result", "tool_use_id": CANARY, "content": "w1"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CANARY}}
TOOL = {"name": "find", "input_schema": {"type": "object", "properties": {}}}
ANTHROPIC = [
    {"messages": []},
    *(
        {"messages": [{"role": "user", "content": content}]}
        for content in ([IMAGE], [USED], "\ud800")
    ),
    {"messages": [*USER["messages"], {"role": "assistant", "content": CANARY}]},
    {"messages": [{"role": "system", "content": CANARY}]},
    {"metadata": {"user_id": CANARY}},
    {"system": 3},
    {"tools": [TOOL], "tool_choice": {"type": "tool", "name": CANARY}},
    {"mcp_servers": [{"url": CANARY}]},
]
REFUSED = [
    *(("/chat/completions", {**USER, field: value}) for field, value in FIELDS.items()),
    *(("/chat/completions", {"messages": messages}) for messages in MESSAGES),
    *(("/responses", {"input": "x", **more}) for more in RESPONSES),
    *(("/messages", {**USER, "max_tokens": 99, **more}) for more in ANTHROPIC),
    *TEXTS,
]


@over("path, body", REFUSED)
def test_other_fields_and_messages_are_refused(gateway, path, body):
    answer = gateway.post(path, json.dumps({"model": MODEL, **body}).encode())
    assert answer.status_code == 400, answer.text
    assert CANARY not in answer.text
    assert not gateway.upstream.requests
    error, is_anthropic = answer.json()["error"], path == "/messages"
    assert set(error) == {"message", "type", *([] if is_anthropic else ["param", "code"])}
    assert not is_anthropic or error["type"] == "invalid_request_error"


@over("odd", ['"\\ud800"', "1e999", '{"\\udfff": 1}'])
def test_what_no_json_can_spell_is_refused(gateway, odd):
    schema = {"name": "f", "parameters": {"a": 5}}
    body = json.dumps({"model": MODEL, **USER, "tools": [{"type": "function", "function": schema}]})
    answer = gateway.post("/chat/completions", body.replace(": 5", f": {odd}").encode())
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert not gateway.upstream.requests
