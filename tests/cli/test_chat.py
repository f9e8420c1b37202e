"""``dp-middleware chat``: who is sent what, over real HTTP."""

import json

import pytest
from support.commands import run
from support.contract import OpenAIServer
from support.texts import CANARY

import dp_middleware as dp


@pytest.fixture
def servers():
    with OpenAIServer("remote \x1b[2J\rte\x9bxt") as remote, OpenAIServer("extracted") as local:
        yield remote, local


def chat(servers, *arguments, extractor=None, code=0):
    remote, local = (f"openai:m@{server.url}" for server in servers)
    options = ("--remote", remote, "--extractor", extractor or local, "--nominal")
    return run("chat", *options, *arguments, code=code)


def test_chat_sends_the_release_and_prints_the_extracted_answer(servers):
    remote, local = servers
    result = chat(servers, "the patient", CANARY, "--instruction", "Shorten it.")
    assert result.stdout == "extracted\n"
    assert "remote [2Jtext" in result.stderr
    assert "epsilon" in result.stderr
    assert "Shorten it." in str(remote.requests)
    assert not remote.saw(CANARY)
    assert local.saw(CANARY)


def test_chat_as_json(servers):
    document = json.loads(chat(servers, "the patient", "--json").stdout)
    assert document["answer"] == "extracted"
    assert document["remote_answer"] == "remote \x1b[2J\rte\x9bxt"
    assert document["release"]["text"] in str(servers[0].requests)
    assert document["release"]["asked"] == {"epsilon": 10.0, "kind": "nominal"}


def test_chat_refuses_an_extractor_elsewhere(servers):
    result = chat(servers, CANARY, extractor="openai:m@https://models.example.com/v1", code=3)
    assert "--trusted-host" in result.stderr
    assert not servers[0].requests


def test_a_trusted_host_gets_past_the_check(servers, monkeypatch):
    class Stub:
        def __init__(self, sanitizer, **models):
            assert models["trusted_hosts"] == ("models.example.com",)

        def run(self, document, instruction):
            raise dp.ExtractorError("stopped here: nothing may leave a test")

    monkeypatch.setattr(dp, "InferDPT", Stub)
    elsewhere = "openai:m@https://models.example.com/v1"
    trusted = ("--trusted-host", "models.example.com")
    assert chat(servers, "w1", *trusted, extractor=elsewhere, code=4).stdout == ""


def test_a_failing_chat_model_is_4_and_its_message_is_not_shown(servers):
    servers[1].mode = "malformed"
    result = chat(servers, CANARY, "--json", code=4)
    assert json.loads(result.stdout)["error"]["type"] == "ExtractorError"


def test_chat_about_nothing_sends_nothing(servers):
    for text in ("", " \n"):
        chat(servers, text, code=2)
    assert not servers[0].requests
