"""InferDPT's local model behind the gateway."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from support.contract import OpenAIServer, ToolCall
from support.gateway import MODEL, releases, running, settings
from support.texts import CANARY

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.gateway.releasing import Sessions


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


def test_no_local_answer_can_be_taken_for_a_public_one():
    policy = {"extractor": "openai:small@http://127.0.0.1:1/v1", "answers": "public"}
    with pytest.raises(ParameterError, match=r"policies\.default: .*answers"):
        settings("http://127.0.0.1:1/v1", policies={"default": policy})
    for mode in ("pseudonyms", "both"):  # these release it
        settings("http://127.0.0.1:1/v1", policies={"default": {**policy, "mode": mode}})


def test_an_extractor_elsewhere_is_refused():
    policy = {"extractor": "openai:gpt@https://api.example.com/v1"}
    with pytest.raises(UntrustedHost), OpenAIServer() as upstream:
        Sessions(settings(upstream.url, policies={"default": policy}), None, releases)


def test_a_slow_local_model_keeps_nobody_else_waiting(extracting, local):
    answers = Event()
    local.reply = lambda _: "fitted" if answers.wait(60) else "late"
    with ThreadPoolExecutor(40) as clients:
        waiting = [clients.submit(extracting.chat, f"w{k}") for k in range(40)]
        while len(extracting.upstream.requests) < 40:
            assert not waiting[0].done()
        try:
            other = extracting.post("/embeddings", {"model": MODEL, "input": "w1"}, "bob")
        finally:
            answers.set()
        assert other.status_code == 200
        assert {each.result().status_code for each in waiting} == {200}
