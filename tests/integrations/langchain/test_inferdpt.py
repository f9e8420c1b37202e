"""InferDPTChatModel: raw text and the answer stay here; the remote model's draft is the history."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from support.contract import Probe, TraceSafeContract, fallback_calls, runnable_calls
from support.langchain import HEARD, IMAGE, infer

from dp_middleware.errors import ParameterError


def transcript(probe):
    first = HumanMessage([{"type": "text", "text": probe.new_text()}], name=probe.canary)
    return [SystemMessage("summarize"), first, HumanMessage(probe.new_text(), id=probe.new_id())]


@pytest.mark.slow
class TestEchoingExtractor(TraceSafeContract):
    """A real client on a local server that answers with the raw document."""

    output = "private"
    hears = requires = HEARD
    calls = {k: call for k, call in runnable_calls(transcript).items() if "_events" not in k}
    replays = {
        "by id": lambda m, p: m.invoke([HumanMessage(p.private_text, id="1")], p.config),
        "by transcript": lambda m, p: m.invoke([HumanMessage(p.private_text)], p.config),
    }
    refusals = {
        "image": lambda m, p: m.invoke([HumanMessage([p.private_text, IMAGE])], p.config),
        "unknown answer": lambda m, p: m.invoke(
            [AIMessage(p.private_text, id="a"), HumanMessage(p.private_text)], p.config
        ),
        "result of a tool": lambda m, p: m.invoke(
            [ToolMessage(p.private_text, tool_call_id="c"), HumanMessage("x")], p.config
        ),
        "no question": lambda m, p: m.invoke([SystemMessage("x")], p.config),
        "generate": lambda m, p: m.generate([transcript(p)], **p.config),
        "agenerate": lambda m, p: m.agenerate([transcript(p)], **p.config),
        "stream_events": lambda m, p: m.stream_events(transcript(p), p.config),
        "astream_events": lambda m, p: m.astream_events(transcript(p), p.config, version="v2"),
        "settings of a call": lambda m, p: m.invoke(p.private_text, p.config, stop=["x"]),
    }

    def adapter(self, probe):
        return infer(probe, extractor=probe.chat_openai(probe.local))


class TestFunctionAsExtractor(TraceSafeContract):
    output = "private"
    calls = {"invoke": lambda m, p: m.invoke(p.new_text(), p.config)}
    fallbacks = fallback_calls(Probe.new_text)

    def adapter(self, probe):
        return infer(probe)


def test_system_messages_are_the_instruction(probe):
    infer(probe).invoke([SystemMessage("Translate."), HumanMessage(probe.private_text)])
    infer(probe, instruction="Shorten.").invoke(probe.private_text)
    first, second = (json.loads(body)["messages"][-1]["content"] for body in probe.remote.bodies)
    assert first.startswith("Translate.")
    assert second.startswith("Shorten.")
    assert not probe.leaks()


def test_the_answer_streams_piece_by_piece(probe):
    model = infer(probe, extractor=probe.chat_openai(probe.local))
    assert len([chunk for chunk in model.stream(probe.private_text) if chunk.text]) > 3


def test_it_refuses_to_run_in_a_chain(probe):
    prompt = ChatPromptTemplate.from_template("{q}")
    with pytest.raises(ParameterError, match=r"InferDPTChatModel runs inside another run"):
        (prompt | infer(probe)).invoke({"q": "x"})
    assert not probe.remote.raw
    allowed = infer(probe, traced="allow")
    assert (prompt | allowed).invoke({"q": "secret"}).text
    assert b"secret" not in probe.remote.bodies[-1]
