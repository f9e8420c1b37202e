"""``/v1/messages``: system prompt, blocks, tools and streams of Anthropic's protocol."""

import json

import pytest
from support.contract import ToolCall
from support.gateway import KEYS, MODEL, fresh_spent, running, sse
from support.texts import CANARY

PRIVATE = "Mirela Tamburi lives in Berlin"
HIDDEN = ("Mirela", "Tamburi", "Berlin")
TOOL = {"name": "find", "input_schema": {"type": "object", "properties": {}}}


def user(content):
    return {"role": "user", "content": content}


def ask(gateway, *messages, **more):
    body = {"model": MODEL, "max_tokens": 99, "messages": list(messages), **more}
    return gateway.post("/messages", body)


def test_only_released_text_goes_out(gateway):
    cache = {"type": "ephemeral"}
    system = [{"type": "text", "text": f"be {CANARY}", "cache_control": cache}]
    answer = ask(gateway, user([{"type": "text", "text": CANARY}]), system=system, top_k=3)
    assert answer.status_code == 200
    body = gateway.upstream.requests[-1]
    assert set(body) == {"model", "max_tokens", "messages", "system", "top_k"}
    assert body["system"][0]["cache_control"] == cache
    assert not gateway.upstream.saw(CANARY)
    assert answer.headers["x-dp-messages"] == "2"
    head = gateway.upstream.raw[-1].lower()
    assert b"anthropic-version: 2023-06-01" in head
    assert b"x-api-key: sk-upstream" in head
    assert KEYS["ann"].encode() not in gateway.upstream.raw[-1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_with_tools_thoughts_and_originals(names, stream):
    """Thoughts and texts are restored, and all of an answer is known when it comes again."""
    arguments = {}

    def call(request):
        said = request["messages"][-1]["content"][0]["text"]
        arguments["who"] = said.removesuffix(" lives in " + said.rpartition(" ")[2])
        return [ToolCall(name="find", arguments=dict(arguments), id="toolu_1")]

    names.upstream.mode, names.upstream.reply = "ok", call
    first = ask(names, user(PRIVATE), tools=[TOOL], stream=stream)
    assert first.status_code == 200, first.text
    if stream:
        deltas = [e["delta"] for e in sse(first) if e["type"] == "content_block_delta"]
        given = json.loads("".join(delta["partial_json"] for delta in deltas))
    else:
        given = first.json()["content"][0]["input"]
    assert given == {"who": "Mirela Tamburi"}
    assert arguments["who"] != "Mirela Tamburi"
    names.upstream.mode = "echo"
    used = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": given}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Mirela Tamburi: 31"}
    talk = [user(PRIVATE), {"role": "assistant", "content": [used]}, user([result])]
    second = ask(names, *talk, tools=[TOOL], stream=stream)
    assert second.status_code == 200, second.text
    sent = names.upstream.requests[-1]["messages"]
    assert sent[1]["content"][0]["input"] == arguments
    assert sent[2]["content"][0]["tool_use_id"] == "toolu_1"
    if stream:
        deltas = [e["delta"] for e in sse(second) if e["type"] == "content_block_delta"]
        thought, said = ("".join(d.get(n, "") for d in deltas) for n in ("thinking", "text"))
        signature = "".join(d.get("signature", "") for d in deltas)
        last = [{"type": "thinking", "thinking": thought, "signature": signature}]
        last.append({"type": "text", "text": said})
        assert [sse(second)[k]["type"] for k in (0, -1)] == ["message_start", "message_stop"]
    else:
        last = second.json()["content"]
    said = [block.get("text", block.get("thinking")) for block in last]
    assert said == ["Mirela Tamburi: 31"] * 2
    third = ask(names, *talk, {"role": "assistant", "content": last}, user("And Mirela?"))
    assert third.status_code == 200, third.text
    again = names.upstream.requests[-1]["messages"][3]["content"]
    assert [block["type"] for block in again] == ["thinking", "text"]
    assert not any(names.upstream.saw(word) for word in HIDDEN)


def test_counting_charges_once(tmp_path):
    ledger = {"url": f"sqlite:///{tmp_path}/ledger.db", "budget": 100}
    with running(mode="echo", ledger=ledger) as gateway:
        spent = fresh_spent(gateway, "ann")
        body = {"model": MODEL, "messages": [user("w1 w2")]}
        counted = gateway.post("/messages/count_tokens", body)
        assert counted.json()["input_tokens"] > 0
        assert spent() > 0
        before, sent = spent(), gateway.upstream.requests[-1]["messages"]
        assert ask(gateway, user("w1 w2")).status_code == 200
        assert spent() == before
        assert gateway.upstream.requests[-1]["messages"] == sent


def test_strangers_and_dead_upstreams_are_told_in_anthropics_form(gateway):
    answer = gateway.post("/messages", {}, authorization="Bearer no")
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    gateway.upstream.mode = "malformed"
    answer = ask(gateway, user("w1"))
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "api_error"


def test_a_stream_that_breaks_off_ends_with_an_error(gateway, monkeypatch):
    from support.contract import openai_server

    whole = openai_server.message_events
    cut = b"event: message_delta"
    monkeypatch.setattr(openai_server, "message_events", lambda said: whole(said).partition(cut)[0])
    last = sse(ask(gateway, user("w1"), stream=True))[-1]
    assert last["type"] == "error"
    assert last["error"]["type"] == "api_error"
