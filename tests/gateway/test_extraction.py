"""InferDPT's local model behind the gateway."""

from __future__ import annotations

import pytest
from support.gateway import releases, running, settings
from support.texts import CANARY

from dp_middleware.errors import UntrustedHost
from dp_middleware.gateway.policies import Sessions
from dp_middleware.testing import OpenAIServer, ToolCall


@pytest.fixture
def extracting(local):
    local.reply = lambda request: f"fitted: {request['messages'][-1]['content']}"
    policy = {"extractor": f"openai:small@{local.url}", "tools": "public"}
    with running("remote answer", policies={"default": policy}) as gateway:
        yield gateway


@pytest.mark.parametrize("stream", [False, True])
def test_the_local_model_sees_the_text_and_the_upstream_does_not(extracting, local, stream):
    answer = extracting.chat(f"say {CANARY}", stream=stream)
    assert answer.status_code == 200
    assert "fitted: " in answer.text
    assert CANARY in answer.text
    assert local.saw("remote answer")
    assert not extracting.upstream.saw(CANARY)
    assert "stream" not in extracting.upstream.requests[-1]
    assert answer.text.endswith("data: [DONE]\n\n") is stream


def test_the_remote_answer_goes_out_again(extracting):
    message = extracting.chat("one").json()["choices"][0]["message"]
    assert message["content"].startswith("fitted")
    assert extracting.chat("one", message, "two").status_code == 200
    assert extracting.upstream.requests[-1]["messages"][1]["content"] == "remote answer"


def test_calls_of_tools_are_not_fitted(extracting, local):
    extracting.upstream.reply = [ToolCall(name="find")]
    message = extracting.chat("one").json()["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "find"
    assert not local.requests


def test_a_local_model_that_fails(extracting, local):
    local.mode = "error"
    answer = extracting.chat(CANARY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "extractor_failed")
    assert CANARY not in answer.text


def test_an_extractor_elsewhere_is_refused():
    policy = {"extractor": "openai:gpt@https://api.example.com/v1"}
    with pytest.raises(UntrustedHost), OpenAIServer() as upstream:
        Sessions(settings(upstream.url, policies={"default": policy}), None, releases)
