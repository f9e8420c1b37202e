"""Requests that nobody meant: an answer or a clean refusal, never a leak or a crash."""

import copy
import json
import os
import random
import secrets
from collections import Counter

import httpx
import pytest
from support.contract import ToolCall
from support.gateway import KEYS, MODEL, AllLogs, running
from support.texts import CANARY, TORTURE

SEED = "0" if "CI" in os.environ else secrets.token_hex(4)  # a failure quotes it
TOOL = {"name": "find", "description": "finds", "parameters": {"type": "object"}}
SAID = {"role": "user", "content": CANARY}
PARTS = {"role": "user", "content": [{"type": "text", "text": CANARY}]}
SEEDS = {
    "/v1/chat/completions": {
        "model": MODEL,
        "messages": [{"role": "system", "content": CANARY}, PARTS, SAID],
        "tools": [{"type": "function", "function": TOOL}],
        "response_format": {"type": "json_object"},
        **{"tool_choice": "auto", "stop": ["x"], "stream": False, "n": 1, "temperature": 0.5},
    },
    "/v1/responses": {
        "model": MODEL,
        "instructions": CANARY,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": CANARY}]},
            {"type": "message", "role": "developer", "content": CANARY},
        ],
        "tools": [{"type": "function", **TOOL}],
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        **{"reasoning": {"effort": "low"}, "stream": False},
    },
    "/v1/messages": {
        **{"model": MODEL, "max_tokens": 9, "messages": [PARTS, SAID], "stream": False},
        "system": [{"type": "text", "text": CANARY}],
        "tools": [{"name": "find", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 5},
    },
    "/v1/completions": {"model": MODEL, "prompt": [CANARY, CANARY], "stream": False, "n": 1},
    "/v1/embeddings": {"model": MODEL, "input": [CANARY], "encoding_format": "float"},
    "/beta/litellm_basic_guardrail_api": {
        "input_type": "request",
        "request_data": {"user_api_key_hash": "a"},
        "texts": [CANARY, CANARY],
        "structured_messages": [{"role": "system", "content": CANARY}, SAID],
        "request_headers": {"x-litellm-session-id": "s"},
        "images": [],
    },
}
PUBLIC = {"tools", "stop", "response_format"}  # declared so: what they hold goes out
KEYS_SEEN = ["user", "metadata", "name", "id", "type", "role", "content", "tool_calls", "call_id",
             "previous_response_id", "conversation", "function", CANARY, "", "\u0000"]  # fmt: skip
CALL = {"id": "1", "type": "function", "function": {"name": CANARY, "arguments": CANARY}}
VALUES = [
    CANARY, None, True, False, 0, -1, 3, 10**400, 0.5, 1e308, -(2**70), [], {}, [CANARY], "user",
    "assistant", "tool", "message", "function_call", "function_call_output", "reasoning", "text",
    "image_url", {"role": "assistant", "content": CANARY}, {"role": "tool", "content": CANARY},
    {"role": "assistant", "tool_calls": [CALL]}, {"type": "reasoning", "summary": [CANARY]},
    {"type": "function_call", "call_id": CANARY, "name": CANARY, "arguments": CANARY},
    {"type": "function_call_output", "call_id": CANARY, "output": CANARY}, {CANARY: CANARY},
    {"type": "tool_result", "tool_use_id": CANARY, "content": CANARY}, "tool_result", "thinking",
    {"type": "tool_use", "id": CANARY, "name": CANARY, "input": {CANARY: CANARY}},
    [[[[CANARY]]]], *TORTURE.values(),
]  # fmt: skip


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            if not path and key in PUBLIC:
                continue
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for k, each in enumerate(value):
            yield from places(each, (*path, k))


def changed(body, draw):
    """One thing in it replaced, taken out, put in or doubled."""
    path = draw.choice(list(places(body)))
    if not path:
        body[draw.choice(KEYS_SEEN)] = copy.deepcopy(draw.choice(VALUES))
        return
    *above, last = path
    at = body
    for key in above:
        at = at[key]
    what = draw.randrange(4)
    if what == 0:
        del at[last]
    elif what == 1 and isinstance(at[last], dict):
        at[last][draw.choice(KEYS_SEEN)] = copy.deepcopy(draw.choice(VALUES))
    elif what == 2 and isinstance(at, list):
        at.extend([copy.deepcopy(at[last])] * draw.choice([1, 3]))
    else:
        at[last] = copy.deepcopy(draw.choice(VALUES))


def request_of(draw):
    path = draw.choice(list(SEEDS))
    body = copy.deepcopy(SEEDS[path])
    if draw.random() < 0.3:
        body["stream"] = True
    for _ in range(draw.choice([0, 1, 1, 2, 3, 5])):
        changed(body, draw)
    data = json.dumps(body).encode()
    headers = {"authorization": f"Bearer {KEYS['ann']}", "content-type": "application/json"}
    odd = draw.random()
    if odd < 0.03:
        data = data[: draw.randrange(len(data))]
    elif odd < 0.06:
        data = bytes(draw.randrange(256) for _ in range(50)) + CANARY.encode()
    elif odd < 0.09:
        headers["authorization"] = draw.choice([CANARY, f"Bearer {CANARY}", f"Basic {CANARY}", ""])
    elif odd < 0.12:
        headers["x-dp-conversation"] = draw.choice([CANARY, "", "x" * 300, "a b"])
    elif odd < 0.14:
        headers["content-type"] = draw.choice([CANARY, "text/plain", "multipart/form-data"])
    elif odd < 0.16:
        path = draw.choice([f"/{CANARY}", f"{path}/{CANARY}", f"{path}?x={CANARY}", "/v1/audio"])
    elif odd < 0.18:
        headers["openai-organization"] = headers["x-request-id"] = CANARY
    return path, headers, data


def fuzz(count, seed):
    public, limits = dict.fromkeys(PUBLIC, "public"), {"requests_per_minute": 10**9}
    seen = Counter()
    with (
        AllLogs() as logs,
        running(limits=limits, policies={"default": public}) as gateway,
        httpx.Client(base_url=gateway.root, trust_env=False, timeout=30, verify=False) as client,
    ):
        gateway.upstream.reply = lambda request: (
            [ToolCall(name="find")] if request.get("tools") else "a fine answer"
        )
        for k in range(count):
            draw = random.Random(f"{seed} {k}")
            path, headers, data = request_of(draw)
            answer = client.post(path, headers=headers, content=data)
            where = f"seed {seed} request {k}: {answer.status_code} {answer.text[:200]}"
            assert answer.status_code == 200 or 400 <= answer.status_code < 500, where
            assert CANARY not in answer.text + str(answer.headers), where
            if answer.status_code != 200:
                error = answer.json()["error"]
                is_anthropic = path.partition("?")[0] == "/v1/messages"
                more = set() if is_anthropic else {"param", "code"}
                assert set(error) == {"message", "type", *more}, where
            assert not gateway.upstream.saw(CANARY), where
            gateway.upstream.raw.clear()
            seen[answer.status_code] += 1
        metrics = client.get("/metrics").text
    assert CANARY not in metrics
    own = ("httpx: HTTP Request: POST " + gateway.root, "uvicorn.asgi: ", "uvicorn.access: ")
    assert not [line for line in logs.lines if CANARY in line and not line.startswith(own)]
    return seen


@pytest.mark.parametrize(
    "count", [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_odd_requests(count):
    seen = fuzz(count, SEED)
    assert seen[200] > count / 10
    assert seen[400] > count / 3
