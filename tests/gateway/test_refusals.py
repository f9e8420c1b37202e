"""What cannot be released is refused without its value, in places by name; nothing goes out."""

import json

import pytest
from support.cases import over
from support.gateway import MODEL
from support.texts import CANARY

USER = {"messages": [{"role": "user", "content": "text"}]}
FIELDS = {
    "user": CANARY,
    "metadata": {"a": CANARY},
    "safety_identifier": CANARY,
    "prompt_cache_key": CANARY,
    "logit_bias": {"5": 1},
    "functions": [],
    "function_call": CANARY,
    "prediction": {"type": "content", "content": CANARY},
    "audio": {},
    "modalities": ["audio"],
    "web_search_options": {},
    CANARY: 1,
    "model": CANARY,
    "temperature": CANARY,
    "n": 100,
    "tool_choice": {"type": "function", "function": {"name": CANARY}},
    "response_format": {"type": CANARY},
    "tools": [{"type": CANARY}],
    "stream": CANARY,
    "stop": {"a": CANARY},
}
MESSAGES = [
    CANARY,
    [],
    [CANARY],
    [{"role": CANARY, "content": "x"}],
    [{"role": "user"}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": 3}],
    [{"role": "user", "content": []}],
    [{"role": "user", "content": "x", "name": CANARY}],
    [{"role": "user", "content": "x", CANARY: CANARY}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": CANARY}}]}],
    [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": CANARY}]}],
    [{"role": "user", "content": "\ud800"}],
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
    ("/embeddings", {"input": [1, 2, 3]}),
    ("/embeddings", {"input": [[1, 2]]}),
    ("/embeddings", {"input": CANARY, "user": CANARY}),
    ("/embeddings", {"input": []}),
    ("/completions", {"prompt": [1, 2]}),
    ("/completions", {"prompt": "x", "suffix": CANARY}),
    ("/completions", {"prompt": "x", "echo": True}),
    ("/completions", {}),
]
REFUSED = [
    *(("/chat/completions", {**USER, field: value}) for field, value in FIELDS.items()),
    *(("/chat/completions", {"messages": messages}) for messages in MESSAGES),
    *(("/responses", {"input": "x", **more}) for more in RESPONSES),
    *TEXTS,
]


@over("path, body", REFUSED)
def test_other_fields_and_messages_are_refused(gateway, path, body):
    answer = gateway.post(path, json.dumps({"model": MODEL, **body}).encode())
    assert answer.status_code == 400, answer.text
    assert CANARY not in answer.text
    assert not gateway.upstream.requests
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("odd", ['"\\ud800"', "1e999", '{"\\udfff": 1}'])
def test_what_no_json_can_spell_is_refused(gateway, odd):
    schema = {"name": "f", "parameters": {"a": 5}}
    body = json.dumps({"model": MODEL, **USER, "tools": [{"type": "function", "function": schema}]})
    answer = gateway.post("/chat/completions", body.replace(": 5", f": {odd}").encode())
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert not gateway.upstream.requests
