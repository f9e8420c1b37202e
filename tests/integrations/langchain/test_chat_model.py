"""DPChatModel: the remote model gets released text on every path, and its answers may come back."""

import asyncio
import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_dp_middleware import DPChatModel
from pydantic import BaseModel
from support.contract import (
    ToolCall,
    TraceSafeContract,
    fallback_calls,
    runnable_calls,
    typed_event_calls,
)
from support.langchain import HEARD, IMAGE

from dp_middleware.errors import EventRefused


@tool
def look_up(q: str) -> str:
    """Looks something up."""
    return q


class Found(BaseModel):
    """What was found."""

    q: str


def transcript(probe):
    """A canary in every private slot."""
    slots = {
        "name": probe.canary,
        "additional_kwargs": {probe.canary: probe.canary},
        "response_metadata": {"m": probe.canary},
    }
    text = {"type": "text", "text": probe.new_text(), "annotations": [probe.canary]}
    return [
        SystemMessage("public rules"),
        HumanMessage([text, probe.new_text()], id=probe.new_id(), **slots),
        ("human", probe.new_text()),
        {"role": "user", "content": probe.new_text()},
    ]


class TestEveryPath(TraceSafeContract):
    hears = HEARD
    requires = HEARD
    calls = {
        **runnable_calls(transcript),
        **typed_event_calls(transcript),
        "text": lambda m, p: m.invoke(p.new_text(), p.config),
        "generate": lambda m, p: m.generate([_listed(p)], **p.config),
        "agenerate": lambda m, p: m.agenerate([_listed(p)], **p.config),
        "tools": lambda m, p: m.bind_tools([look_up]).invoke(transcript(p), p.config),
        "tools, events": lambda m, p: m.bind_tools([look_up]).astream_events(
            transcript(p), p.config, version="v2"
        ),
    }
    replays = {
        "by id": lambda m, p: m.invoke([HumanMessage(p.private_text, id="1")], p.config),
        "by transcript": lambda m, p: m.invoke([HumanMessage(p.private_text)], p.config),
        "a tool's result": lambda m, p: m.invoke(
            [ToolMessage(p.private_text, tool_call_id="c", id="1", artifact=p.canary)], p.config
        ),
    }
    retries = {
        "with_retry": lambda m, p: m.with_retry(wait_exponential_jitter=False).invoke(
            [HumanMessage(p.new_text(), id=p.new_id())], p.config
        ),
        "with_retry, a text": lambda m, p: m.with_retry(wait_exponential_jitter=False).invoke(
            p.new_text(), p.config
        ),
        "with_fallbacks": lambda m, p: m.with_fallbacks([p.chat_openai()]).invoke(
            p.new_text(), p.config
        ),
        "with_fallbacks, wrapped": lambda m, p: m.with_fallbacks(
            [DPChatModel(p.session(), p.chat_openai())]
        ).invoke(p.new_text(), p.config),
    }
    fallbacks = fallback_calls(transcript)
    refusals = {
        "image": lambda m, p: m.invoke([HumanMessage([p.private_text, IMAGE])], p.config),
        "unknown answer": lambda m, p: m.invoke(
            [HumanMessage(p.private_text), AIMessage(p.private_text, id="a")], p.config
        ),
        "unknown call of a tool": lambda m, p: m.stream(
            [("human", p.private_text), _call({"q": p.private_text})], p.config
        ),
        "no messages": lambda m, p: m.invoke({"q": p.private_text}, p.config),
        "generate from texts": lambda m, p: m.generate([[p.private_text]], **p.config),
        "agenerate from texts": lambda m, p: m.agenerate([[p.private_text]], **p.config),
        "epsilon": lambda m, p: m.invoke(p.private_text, {"configurable": {"dp_epsilon": -1}}),
    }

    def adapter(self, probe):
        return DPChatModel(probe.session(), probe.chat_openai())


def _listed(probe):
    return [SystemMessage("public rules"), HumanMessage(probe.new_text(), name=probe.canary)]


def _call(args):
    return AIMessage("", tool_calls=[{"name": "look_up", "args": args, "id": "call-1"}])


def test_calls_of_tools_come_back_as_the_remote_model_made_them(probe):
    model = DPChatModel(probe.session(), probe.chat_openai())
    probe.remote.reply = [ToolCall(name="look_up", arguments={"q": "w1x"}, id="call-1")]
    question = HumanMessage(probe.new_text())
    call = model.bind_tools([look_up]).invoke([question])
    assert call.tool_calls[0]["args"] == {"q": "w1x"}
    edited = call.model_copy(
        update={
            "content": probe.private_text,
            "tool_calls": [{"name": "look_up", "args": {"q": probe.canary}, "id": "call-1"}],
        }
    )
    result = ToolMessage(probe.private_text, tool_call_id="call-1", artifact=probe.canary)
    for shown in (call, edited):
        model.invoke([question, shown, result])
        sent = json.loads(probe.remote.bodies[-1])["messages"]
        assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
        assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"q": "w1x"}
    assert not probe.leaks()
    without_id = call.model_copy(update={"id": None})
    with pytest.raises(EventRefused, match=r"note_answer.*ai=\"pass\""):
        model.invoke([question, edited.model_copy(update={"id": None}), result])
    model.invoke([question, without_id, result])  # known by its words


def test_no_transcript_is_charged_before_all_are_looked_at(probe):
    model = DPChatModel(probe.session(), probe.chat_openai())
    transcripts = [[HumanMessage(probe.new_text())], [AIMessage(probe.private_text)]]
    with pytest.raises(EventRefused):
        model.generate(transcripts)
    with pytest.raises(EventRefused):
        asyncio.run(model.agenerate(transcripts))
    assert not probe.charges


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_structured_output_is_the_inner_models(include_raw, method, probe):
    text = '{"q": "x"}'
    called = [ToolCall(name="Found", arguments={"q": "x"})]
    probe.remote.reply = text if method == "json_schema" else called
    model = DPChatModel(probe.session(), probe.chat_openai())
    chain = model.with_structured_output(Found, method=method, include_raw=include_raw)
    found = (ChatPromptTemplate.from_template("find {x}") | chain).invoke({"x": "secret"})
    assert (found["parsed"] if include_raw else found) == Found(q="x")
    assert b"secret" not in probe.remote.bodies[-1]


def test_tokens_stream_and_settings_reach_the_model(probe):
    model = DPChatModel(session=probe.session(), inner=probe.chat_openai(temperature=0.5))
    probe.remote.reply = "one two three"
    bound = model.bind(stop=["x"]).with_config(tags=["t"])
    assert [chunk.text for chunk in bound.stream("secret")][:3] != ["one two three"]
    body = json.loads(probe.remote.bodies[-1])
    assert (body["stop"], body["temperature"], body["stream"]) == (["x"], 0.5, True)
    assert model._get_ls_params(model="other")["ls_model_name"] == "other"
    assert (model | StrOutputParser()).invoke("secret") == "one two three"
