"""``dp-middleware chat``: who is sent what, over real HTTP."""

import json

import pytest
from support.commands import run
from support.contract import OpenAIServer
from support.texts import CANARY

import dp_middleware as dp


@pytest.fixture
def servers(monkeypatch):
    """A remote model and an extractor on loopback, and no key in the environment."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with OpenAIServer("remote \x1b[2Jtext") as remote, OpenAIServer("extracted") as local:
        yield remote, local


def chat(servers, *arguments, extractor=None):
    remote, local = (f"openai:m@{server.url}" for server in servers)
    options = ("--remote", remote, "--extractor", extractor or local, "--nominal")
    return run("chat", *options, *arguments)


def test_chat_sends_the_release_and_prints_the_extracted_answer(servers):
    remote, local = servers
    result = chat(servers, "the patient", CANARY, "--instruction", "Shorten it.")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "extracted\n"
    assert "remote [2Jtext" in result.stderr
    assert "epsilon" in result.stderr
    assert "Shorten it." in str(remote.requests)
    assert not remote.saw(CANARY)
    assert local.saw(CANARY)


def test_chat_as_json(servers):
    document = json.loads(chat(servers, "the patient", "--json").stdout)
    assert document["answer"] == "extracted"
    assert document["remote_answer"] == "remote \x1b[2Jtext"
    assert document["release"]["text"] in str(servers[0].requests)
    assert document["release"]["asked"] == {"epsilon": 10.0, "kind": "nominal"}


def test_chat_refuses_an_extractor_elsewhere(servers):
    result = chat(servers, CANARY, extractor="openai:m@https://models.example.com/v1")
    assert result.exit_code == 3
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
    result = chat(servers, "w1", "--trusted-host", "models.example.com", extractor=elsewhere)
    assert (result.exit_code, result.stdout) == (4, "")


def test_a_failing_chat_model_is_4_and_its_message_is_not_shown(servers):
    servers[1].mode = "malformed"
    result = chat(servers, CANARY, "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"]["type"] == "ExtractorError"


@pytest.mark.parametrize("text", ["", " \n"])
def test_chat_about_nothing_sends_nothing(servers, text):
    assert chat(servers, text).exit_code == 2
    assert not servers[0].requests
