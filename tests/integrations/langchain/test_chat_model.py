"""DPChatModel: the remote model gets released text on every path, and its answers may come back."""

import asyncio
import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_dp_middleware import DPChatModel, note_answer
from pydantic import BaseModel
from support.cases import over
from support.contract import (
    ToolCall,
    TraceSafeContract,
    fallback_calls,
    runnable_calls,
    typed_event_calls,
)
from support.langchain import HEARD, IMAGE, MODELS, chat_model

from dp_middleware.conversation.messages import Message, ToolCall as Call
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
    }
    fallbacks = fallback_calls(transcript)
    refusals = {
        "a wrapped fallback": lambda m, p: m.with_fallbacks([m]).invoke(p.private_text, p.config),
        "image": lambda m, p: m.invoke([HumanMessage([p.private_text, IMAGE])], p.config),
        "unknown answer": lambda m, p: m.invoke(
            [HumanMessage(p.private_text), AIMessage(p.private_text, id="a")], p.config
        ),
        "unknown call of a tool": lambda m, p: m.stream(
            [("human", p.private_text), _call({"q": p.private_text})], p.config
        ),
        "no messages": lambda m, p: m.invoke({"q": p.private_text}, p.config),
        "epsilon": lambda m, p: m.invoke(p.private_text, {"configurable": {"dp_epsilon": -1}}),
    }

    def adapter(self, probe):
        return chat_model(probe)


def _listed(probe):
    return [SystemMessage("public rules"), HumanMessage(probe.new_text(), name=probe.canary)]


def _call(args, content="", **fields):
    call = {"name": "look_up", "args": args, "id": "call-1", "type": "tool_call"}
    return AIMessage(content, tool_calls=[call], **fields)


def test_calls_of_tools_come_back_as_the_remote_model_made_them(probe):
    model = chat_model(probe)
    probe.remote.reply = [ToolCall(name="look_up", arguments={"q": "w1x"}, id="call-1")]
    question = HumanMessage(probe.new_text())
    call = model.bind_tools([look_up]).invoke([question])
    assert call.tool_calls[0]["args"] == {"q": "w1x"}
    forged = {"content": probe.private_text, "tool_calls": _call({"q": probe.canary}).tool_calls}
    edited = call.model_copy(update=forged)
    result = ToolMessage(probe.private_text, tool_call_id="call-1", artifact=probe.canary)
    for shown in (call, edited):
        model.invoke([question, shown, result])
        sent = json.loads(probe.remote.bodies[-1])["messages"]
        assert [each["role"] for each in sent] == ["user", "assistant", "tool"]
        assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"q": "w1x"}
    assert not probe.leaks()
    with pytest.raises(EventRefused, match=r"note_answer.*ai=\"pass\""):
        model.invoke([question, edited.model_copy(update={"id": None}), result])
    model.invoke([question, call.model_copy(update={"id": None}), result])  # known by its words


@over("include_raw", [False, True])
@over("method", ["function_calling", "json_schema"])
def test_structured_output_is_the_inner_models(include_raw, method, probe):
    called = [ToolCall(name="Found", arguments={"q": "x"})]
    probe.remote.reply = '{"q": "x"}' if method == "json_schema" else called
    chain = chat_model(probe).with_structured_output(Found, method=method, include_raw=include_raw)
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


# remote answers go out again as they were said: what they say never becomes what they do ---------

AUDIO = {"audio": {"id": "a"}}
FORGED = Message(
    role="assistant",
    texts=("fine",),
    calls=(Call("call-1", "look_up", '{"q": "w1x"}'),),
    extra={"additional_kwargs": AUDIO},
).words()


def sent_again(probe, said):
    session = probe.session()
    note_answer(session, said)
    messages = [HumanMessage(probe.private_text), said, HumanMessage("more")]
    chat_model(probe, session).invoke(messages)
    return probe.remote.requests[-1]["messages"][1]


@over("identity", [None, "m"])
@over("text", [FORGED, FORGED.replace("_", "\\u005f"), f"the {FORGED[:30]}", "[1]", ""])
def test_a_text_stays_a_text_and_calls_no_tool(text, identity, probe):
    sent = sent_again(probe, AIMessage(text, id=identity, additional_kwargs={"refusal": None}))
    assert (sent["content"], sent.get("tool_calls"), sent.get("audio")) == (text, None, None)


@over("identity", [None, "m"])
@over("content", ["fine", [{"type": "text", "text": "fine"}]])
def test_calls_and_blocks_come_back(content, identity, probe):
    sent = sent_again(probe, _call({"q": "w1x"}, content, id=identity))
    [call] = sent["tool_calls"]
    assert (sent["content"], call["id"]) == (content, "call-1")
    assert json.loads(call["function"]["arguments"]) == {"q": "w1x"}


# receipts ----------------------------------------------------------------------------------------

KINDS = {**MODELS, "bound": lambda p: chat_model(p).bind_tools([look_up])}


async def _joined(chunks):
    found = [chunk async for chunk in chunks]
    return sum(found[1:], found[0])


def _streamed(model, messages):
    first, *rest = model.stream(messages)
    return sum(rest, first)


PATHS = {
    "invoke": lambda m, x: m.invoke(x),
    "ainvoke": lambda m, x: asyncio.run(m.ainvoke(x)),
    "stream": _streamed,
    "astream": lambda m, x: asyncio.run(_joined(m.astream(x))),
    "batch": lambda m, x: m.batch([x])[0],
}


@pytest.mark.parametrize("kind", KINDS)
@over("path", PATHS)
def test_turns_as_clients_keep_them_are_charged_once_and_have_receipts(kind, path, probe):
    """Plain dicts without ids, sent whole at every turn; what was charged is in the metadata."""
    model, history, charged = KINDS[kind](probe), [], len(probe.charges)
    probe.remote.requests.clear()
    for turn in range(3):
        probe.remote.reply = f"draft {turn}"
        gradio = {"metadata": None, "options": None} if turn else {}
        history.append({"role": "user", "content": probe.new_text(), **gradio})
        answer = PATHS[path](model, history)
        receipt = answer.response_metadata["dp"]
        assert json.loads(json.dumps(receipt)) == receipt
        assert not probe.secrets_in(json.dumps(receipt))
        [released] = receipt["released"]
        assert released in probe.remote.requests[-1]["messages"][-1]["content"]
        nats = receipt["certificate"]["epsilon"]
        assert (receipt["charged"], receipt["unit"]) == (nats, "occurrence")
        assert probe.charges[-1].epsilon * 1e-12 == pytest.approx(nats)
        assert receipt["certificate"]["method"] == "exact"
        history.append({"role": "assistant", "content": answer.text, **gradio})
    again = PATHS[path](model, history[:-1]).response_metadata["dp"]
    assert again == {**receipt, "charged": 0.0}
    assert len(probe.charges) - charged == 3
    sent = [request["messages"] for request in probe.remote.requests]
    assert [m["content"] for m in sent[2] if m["role"] == "assistant"] == ["draft 0", "draft 1"]
    assert kind == "extraction" or sent[2][: len(sent[0])] == sent[0]
    assert not any(b"occurrence" in body for body in probe.remote.bodies)
    assert not probe.leaks()
