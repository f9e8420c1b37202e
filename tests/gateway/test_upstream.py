"""An upstream that fails: a status and words of ours, whatever it says."""

from __future__ import annotations

import time

import pytest
from support.gateway import running
from support.texts import CANARY

from dp_middleware.testing import OpenAIServer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["error", "malformed", "redirect"])
def test_failures_have_no_text(gateway, mode, stream):
    with OpenAIServer(mode="echo") as elsewhere:
        gateway.upstream.redirect_to = elsewhere.url
        gateway.upstream.mode = mode
        gateway.upstream.reply = CANARY
        answer = gateway.chat(CANARY, stream=stream)
        assert not elsewhere.requests
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "server_error"
    assert CANARY not in answer.text


@pytest.mark.parametrize("status", [429, 401, 404])
def test_statuses(gateway, status):
    gateway.upstream.mode = "redirect"
    gateway.upstream.redirect_status = status
    answer = gateway.chat("x")
    gateway.upstream.redirect_status = 307
    assert answer.status_code == (502 if status == 401 else status)
    assert answer.json()["error"]["code"] == "upstream_error"


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_pair_is_no_text(gateway, stream):
    gateway.upstream.mode, gateway.upstream.reply = "ok", "half \ud800"
    answer = gateway.chat("x", stream=stream)
    assert "upstream_garbage" in answer.text
    gateway.upstream.reply = "a pair \U0001f600"
    assert gateway.chat("x", stream=stream).status_code == 200


def test_time_is_limited():
    with running(mode="slow", upstream={"seconds": 0.3}) as slow:
        started = time.perf_counter()
        assert slow.chat("x").status_code == 504
        assert slow.chat("x", stream=True).status_code == 504
        assert time.perf_counter() - started < 5


def test_size_is_limited():
    with running(reply="long " * 500, upstream={"max_bytes": 1000}) as small:
        assert small.chat("x").json()["error"]["code"] == "upstream_too_long"
        answer = small.chat("x", stream=True)
        assert answer.status_code == 200
        assert "upstream_too_long" in answer.text
        assert "[DONE]" not in answer.text


def test_nobody_there():
    with running() as alone:
        alone.upstream.stop()
        assert alone.chat("x").json()["error"]["code"] == "upstream_unreachable"


def test_a_retry_costs_nothing(gateway):
    gateway.upstream.mode = "error"
    first = gateway.chat("try this twice")
    assert first.status_code == 502
    gateway.upstream.mode = "echo"
    second = gateway.chat("try this twice")
    assert second.headers["x-dp-draws"] == "0"
    bodies = gateway.upstream.requests
    assert bodies[0]["messages"] == bodies[1]["messages"]
