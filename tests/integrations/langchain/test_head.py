"""PrivateHead: history, answers, epsilon and rules; for call paths see test_langchain_head.py."""
# ruff: noqa: RUF012 - the tables of a contract are class attributes

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_dp_middleware import PrivateHead, note_answer

from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.testing import Probe, TraceSafeContract, fallback_calls, runnable_calls

pytest.importorskip("langchain_openai")

HEARD = frozenset({"LangChain callbacks", "LangChain async callbacks", "LangSmith"})
IMAGE = {"type": "image_url", "image_url": {"url": "https://private.example"}}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "public rules"), MessagesPlaceholder("history"), ("human", "{question}")]
)


@pytest.fixture
def probe(tmp_path):
    with Probe(tmp_path) as probe:
        yield probe


def values(probe):
    text = {"type": "text", "text": probe.new_text(), "annotations": [probe.canary]}
    history = [HumanMessage([text], name=probe.canary, id=probe.new_id())]
    return {"question": probe.new_text(), "history": history}


class TestChain(TraceSafeContract):
    hears = requires = HEARD
    calls = runnable_calls(values)
    fallbacks = fallback_calls(values)
    retries = {
        "with_retry": lambda c, p: c.with_retry(wait_exponential_jitter=False).invoke(
            values(p), p.config
        ),
        "with_fallbacks": lambda c, p: c.with_fallbacks([PROMPT | p.chat_openai()]).invoke(
            values(p), p.config
        ),
    }
    refusals = {
        "a missing key": lambda c, p: c.invoke({"question": p.private_text}, p.config),
        "epsilon": lambda c, p: c.invoke(values(p), {"configurable": {"dp_epsilon": p.canary}}),
        "unknown answer": lambda c, p: c.invoke(
            {"question": p.private_text, "history": [AIMessage(p.private_text)]}, p.config
        ),
    }

    def adapter(self, probe):
        head = PrivateHead(probe.session(), keys=["question", "history"])
        return head | PROMPT | probe.chat_openai() | StrOutputParser()


class TestMessages(TraceSafeContract):
    calls = {"invoke": lambda c, p: c.invoke([HumanMessage(p.new_text())], p.config)}
    replays = {
        "by id": lambda c, p: c.invoke([HumanMessage(p.private_text, id="1")], p.config),
        "by transcript": lambda c, p: c.invoke([("human", p.private_text)], p.config),
    }

    def adapter(self, probe):
        return PrivateHead(probe.session()) | probe.chat_openai()


PATHS = {
    "invoke": lambda c, v: c.invoke(v),
    "ainvoke": lambda c, v: asyncio.run(c.ainvoke(v)),
    "batch": lambda c, v: c.batch([v])[0],
    "stream": lambda c, v: _sum(c.stream(v)),
    "events": lambda c, v: asyncio.run(_events(c, v))[-1]["data"]["output"],
}


def _sum(chunks):
    first, *rest = chunks
    return sum(rest, first)


async def _events(chain, value):
    return [event async for event in chain.astream_events(value, version="v2")]


@pytest.mark.parametrize("path", PATHS)
def test_the_remote_models_answers_are_noted_if_told_so(path, probe):
    chain = PrivateHead(probe.session(), answers="note") | probe.chat_openai()
    history = []
    for turn in range(4):
        probe.remote.reply = f"answer {turn}"
        history += [HumanMessage(probe.new_text())]
        history += [PATHS[path](chain, history)]
    assert len(probe.charges) == 4
    sent = [json.loads(body)["messages"] for body in probe.remote.bodies]
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier
    assert not probe.leaks()


def test_by_default_no_answer_is_noted_as_it_may_come_from_a_local_model(probe):
    session = probe.session()
    head = PrivateHead(session)
    local = RunnableLambda(lambda _: AIMessage(f"extracted: {probe.private_text}", id="a"))
    chain = head | probe.chat_openai() | local
    question = HumanMessage("one")
    answer = chain.invoke([question])
    with pytest.raises(EventRefused, match="note_answer"):
        chain.invoke([question, answer, HumanMessage("two")])
    note_answer(session, AIMessage("the draft"), event_id="a")
    chain.invoke([question, answer, HumanMessage("two")])
    assert json.loads(probe.remote.bodies[-1])["messages"][1]["content"] == "the draft"
    declared = PrivateHead(probe.session(), ai="pass") | probe.chat_openai()
    declared.invoke([AIMessage("public", name=probe.canary), question])
    assert not probe.remote.saw(probe.canary)


def test_epsilon_of_a_call(probe):
    head = PrivateHead(probe.session())
    own = head.session.sanitizer.certificate.epsilon
    for asked in (None, 0.5, own, 99.0):
        head.invoke("secret", {"configurable": {"dp_epsilon": asked}})
    PrivateHead(head.session, max_epsilon=6.0).invoke(
        "secret", {"configurable": {"dp_epsilon": 99.0}}
    )
    bound = PrivateHead(head.session).with_config(configurable={"dp_epsilon": 1.0})
    bound.invoke("secret")
    spent = [row.epsilon * 1e-12 for row in probe.charges]
    assert spent == pytest.approx([own, 0.5, own, own, 6.0, 1.0], abs=0.05)
    assert len(set(spent)) == 4


def test_rules(probe):
    messages = [SystemMessage(probe.private_text), HumanMessage([probe.private_text, IMAGE])]
    system, human = PrivateHead(probe.session(), system="release", on_other="drop").invoke(messages)
    assert probe.canary not in system.text
    assert len(human.content) == 1
    _, human = PrivateHead(probe.session(), on_other="pass").invoke(messages)
    assert human.content[1] == IMAGE
    assert probe.released(human.content[0])


@pytest.mark.parametrize(
    "options",
    [
        {"system": "cut"},
        {"ai": True},
        {"on_other": "skip"},
        {"answers": "yes"},
        {"max_epsilon": -1},
        {"max_epsilon": float("inf")},
    ],
)
def test_options_are_checked(options, probe):
    [name] = options
    with pytest.raises(ParameterError, match=f"expected {name}"):
        PrivateHead(probe.session(), **options)


def test_conversations_have_names(probe):
    head = PrivateHead(probe.session())

    def released(**names):
        return head.invoke([HumanMessage(probe.private_text)], {"configurable": names})[0].text

    first = released(thread_id="a")
    assert first == released(thread_id="a") != released(session_id="b")
    assert len(probe.charges) == 2
