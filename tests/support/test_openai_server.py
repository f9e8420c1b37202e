"""The OpenAI-compatible server: what the vendors' real clients understand of it."""

import json

import openai
import pytest
from langchain_core.tools import tool
from llama_index.core.tools import FunctionTool
from support.contract import Probe, ToolCall

ASKED = [ToolCall(name="look_up", arguments={"word": "w1x"})]
TWICE = [*ASKED, ToolCall(name="look_up", arguments={"word": "w2x"}, id="call-2")]


def look_up(word: str) -> str:
    """Find a word."""
    return word


@pytest.fixture
def probe(tmp_path):
    with Probe(tmp_path) as probe:
        yield probe


def test_langchain_understands_tool_calls(probe):
    model = probe.chat_openai().bind_tools([tool(look_up)])
    probe.remote.script.extend([TWICE, TWICE])
    whole = model.invoke("hi").tool_calls
    first, *others = model.stream("hi")
    streamed = sum(others, first).tool_calls
    assert whole == streamed
    assert [(call["id"], call["args"]) for call in whole] == [
        ("call-1", {"word": "w1x"}),
        ("call-2", {"word": "w2x"}),
    ]
    assert model.invoke("hi").text == "a fine answer"  # the script is over


def test_llama_index_understands_tool_calls(probe):
    llm, tools = probe.llama_openai(), [FunctionTool.from_defaults(look_up)]
    probe.remote.script.extend([ASKED, ASKED])
    whole = llm.chat_with_tools(tools, "hi")
    *_, streamed = llm.stream_chat_with_tools(tools, "hi")
    for response in (whole, streamed):
        (call,) = llm.get_tool_calls_from_response(response)
        assert (call.tool_name, call.tool_kwargs) == ("look_up", {"word": "w1x"})


def test_the_last_message_is_echoed_also_from_blocks(probe):
    model = probe.chat_openai(probe.local)
    assert model.invoke([("user", [{"type": "text", "text": "two words"}])]).text == "two words"
    assert "".join(chunk.text for chunk in model.stream("two words")) == "two words"
    assert not probe.remote.raw


def test_embeddings_are_a_function_of_the_text(probe):
    embedder = probe.openai_embeddings()
    first, second, again = embedder.embed_documents(["one", "two", "one"])
    assert first == again != second
    assert probe.remote.requests[-1]["input"] == ["one", "two", "one"]
    client = openai.OpenAI(base_url=probe.remote.url, api_key="none")
    found = client.embeddings.create(model="e", input=["one"], encoding_format="float")
    assert found.data[0].embedding == first
    client.close()


def test_some_requests_fail_and_quote(probe):
    probe.remote.failures = 1
    with pytest.raises(openai.InternalServerError, match="a long story"):
        probe.chat_openai().invoke("a long story")
    assert probe.chat_openai().invoke("a long story").text == "a fine answer"
    bodies = [json.loads(body) for body in probe.remote.bodies]
    assert bodies == probe.remote.requests
    assert bodies[0] == bodies[1]
