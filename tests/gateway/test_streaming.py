"""Streams that break off, hang or never end, and clients that leave."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event

import httpx
import openai
import pytest
from support.cases import over
from support.faulty import faulty
from support.gateway import KEYS, MODEL, AllLogs, in_front_of, running, sse
from support.texts import CANARY

BODY = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": CANARY}]}


@pytest.fixture(scope="module")
def upstream():
    with faulty() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(upstream):
    terms = {"seconds": 1.0, "max_bytes": 200_000}
    with in_front_of(upstream, upstream=terms) as gateway:
        yield gateway


CODES = {
    "close": "upstream_ended",
    "hang": "upstream_timeout",
    "garbage": "upstream_garbage",
    "error": "upstream_garbage",
    "list": "upstream_garbage",
    "odd": "upstream_garbage",
    "forever": "upstream_too_long",
    "slow": "upstream_timeout",
}


@over("fault", CODES)
def test_a_stream_that_breaks_ends_with_an_error(gateway, upstream, fault):
    upstream.fault = fault
    with AllLogs() as logs:
        answer = gateway.post("/chat/completions", BODY)
    assert answer.status_code == 200
    first, *_, last = sse(answer)
    assert first["choices"][0]["delta"]["content"] == "a"
    assert last["error"]["code"] == CODES[fault]
    assert CANARY not in answer.text
    assert not [line for line in logs.lines if CANARY in line]
    assert "ERROR" not in "".join(logs.lines)


def wait_until_all_left(gateway):
    deadline = time.monotonic() + 20
    while "dp_gateway_inside 0.0" not in httpx.get(f"{gateway.root}/metrics").text:
        assert time.monotonic() < deadline


def test_a_client_that_leaves_frees_the_upstream(gateway, upstream):
    upstream.fault = "forever"
    upstream.left = Event()
    headers = {"authorization": f"Bearer {KEYS['ann']}"}
    url = f"{gateway.url}/chat/completions"
    with httpx.stream("POST", url, json=BODY, headers=headers) as answer:
        next(answer.iter_bytes())
    assert upstream.left.wait(20)
    wait_until_all_left(gateway)


def test_what_was_read_of_a_left_answer_may_come_back(gateway, upstream):
    upstream.fault = "hang"
    user = {"role": "user", "content": f"{CANARY} and leave"}
    headers = {"authorization": f"Bearer {KEYS['ann']}"}
    url, text = f"{gateway.url}/chat/completions", ""
    with httpx.stream("POST", url, json={**BODY, "messages": [user]}, headers=headers) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                text += json.loads(line[6:])["choices"][0]["delta"]["content"]
            if text == "a b":
                break
    wait_until_all_left(gateway)
    upstream.fault = "slow"
    messages = [user, {"role": "assistant", "content": text}, {"role": "user", "content": "on"}]
    assert gateway.post("/chat/completions", {**BODY, "messages": messages}).status_code == 200


def asking(text):
    return {
        "/chat/completions": {"messages": [{"role": "user", "content": text}]},
        "/responses": {"input": text},
    }


@pytest.fixture(scope="module")
def limited(upstream):
    with in_front_of(upstream, limits={"seconds": 1.0}) as gateway:
        yield gateway


@over("path, body", asking(CANARY).items())
def test_the_total_time_ends_a_stream_with_an_error_of_its_protocol(limited, upstream, path, body):
    upstream.fault = "drip"
    client = openai.OpenAI(base_url=limited.url, api_key=KEYS["ann"], max_retries=0)
    asked = client.responses if path == "/responses" else client.chat.completions

    def read():
        with client, pytest.raises(openai.APIError, match="in time"):
            for _ in asked.create(model=MODEL, stream=True, **body):
                pass

    with AllLogs() as logs, ThreadPoolExecutor(1) as beside:
        reading = beside.submit(read)
        answer = limited.post(path, {"model": MODEL, "stream": True, **body})
        reading.result()
    first, *_, last = sse(answer)
    assert "x" in str(first)
    assert {*last["error"]} == {"message", "type", "param", "code"}
    assert last["error"]["code"] == "upstream_timeout"
    if path == "/responses":
        assert answer.text.rstrip().rpartition("event: ")[2].startswith("error\n")
        assert (last["type"], last["code"], last["message"]) == (
            "error", "upstream_timeout", last["error"]["message"]
        )  # fmt: skip
    assert CANARY not in answer.text + "".join(logs.lines)
    assert not [line for line in logs.lines if "without completing" in line]


NAME = "Mirela Tamburi"


def test_no_piece_waits_for_the_memo(tmp_path):
    """Another process that is just releasing stops no stream, and with it the event loop."""
    memo, policy = tmp_path / "memo.db", {"mode": "pseudonyms"}
    with running(memo=memo, policies={"default": policy}) as hiding:
        hiding.chat(NAME)  # reads lists of names
        for path, body in asking(NAME).items():
            with closing(sqlite3.connect(memo, check_same_thread=False)) as other:

                def reply(request, other=other):
                    other.execute("BEGIN EXCLUSIVE")
                    given = request.get("input") or request["messages"]
                    return f"{given if isinstance(given, str) else given[0]['content']} is there"

                hiding.upstream.reply = reply
                headers = {"authorization": f"Bearer {KEYS['ann']}"}
                sent = {"json": {"model": MODEL, "stream": True, **body}, "headers": headers}
                with httpx.stream("POST", hiding.url + path, **sent, timeout=10) as answer:
                    for line in answer.iter_lines():
                        if "Tamburi" in line:
                            assert httpx.get(f"{hiding.root}/healthz", timeout=10).is_success
                            other.execute("ROLLBACK")
                            break
