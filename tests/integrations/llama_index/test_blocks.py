"""Blocks of calls: every component heeds a smaller epsilon and who pays; subjects share nothing."""

from __future__ import annotations

import asyncio
import math
from uuid import uuid4

import pytest
from support.cases import over

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_dp_middleware import (
    DPLLM,
    DPChatEngine,
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    epsilon,
    subject,
)
from pydantic import BaseModel
from support.contract import ToolCall
from support.llama_index import MODEL, index_of, said, simple_chat, told, user

import dp_middleware as dp

PROMPT = PromptTemplate("w1x {topic}")
TEXT = "w1x w2x"
SORRY = "the budget is spent"


class Found(BaseModel):
    """What was found."""

    word: str


def spent(desk, name="user"):
    """Epsilon of every charge so far, in nats."""
    return [row.epsilon * 1e-12 for row in desk.ledger.rows(name) if row.event == "charge"]


def llm(desk, session):
    """In a conversation of its own: an equal message in another one is another event."""
    return DPLLM(session, desk.llama_openai(), conversation=str(uuid4()))


def engine_of(desk, session):
    return DPQueryEngine(session, index_of(TEXT).as_query_engine(llm=desk.llama_openai()))


def node():
    return TextNode(text=TEXT)


CALLS = {path: lambda d, s, p=path: MODEL[p](llm(d, s), TEXT) for path in MODEL} | {
    "query": lambda d, s: engine_of(d, s).query(TEXT),
    "aquery": lambda d, s: asyncio.run(engine_of(d, s).aquery(TEXT)),
    "transform": lambda d, s: DPQueryTransform(s).run(TEXT),
    "ingestion": lambda d, s: DPTransform(s)([node()]),
    "asynchronous ingestion": lambda d, s: asyncio.run(DPTransform(s).acall([node()])),
    "retrieval": lambda d, s: DPNodePostprocessor(s).postprocess_nodes(
        [NodeWithScore(node=node())], query_str="w1x"
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_block_lowers_and_never_raises_and_its_subject_pays(call, desk):
    session = desk.session()
    own = session.sanitizer.certificate.epsilon
    for value in (0.5, own, 100.0):
        with epsilon(value):
            call(desk, session)
    lower = session.at(0.5).sanitizer.certificate.epsilon
    assert 0.495 <= lower <= 0.5
    assert spent(desk) == pytest.approx([lower, own, own])
    with subject("ann"), subject("bob"), epsilon(0.5):
        call(desk, session)
    call(desk, session)
    assert spent(desk) == pytest.approx([lower, own, own, own])
    assert (spent(desk, "ann"), spent(desk, "bob")) == ([], pytest.approx([lower]))


def test_of_nested_blocks_the_smallest_epsilon_holds(desk):
    transform = DPQueryTransform(desk.session())
    with epsilon(0.5):
        with epsilon(2.0):
            transform.run("w1x")
        transform.run("w1x")
    with epsilon(2.0), epsilon(0.5):
        transform.run("w1x")
    assert spent(desk) == pytest.approx([0.5] * 3, rel=0.01)


@pytest.mark.asyncio
async def test_a_stream_that_is_read_later_was_asked_for_in_the_block(desk):
    desk.remote.reply = [ToolCall(name="Found", arguments={"word": "w1x"})]
    model = DPLLM(desk.session(), desk.llama_openai())
    with epsilon(0.5):
        pieces = model.stream_structured_predict(Found, PROMPT, topic="w2x")
        later = await model.astream_structured_predict(Found, PROMPT, topic="w3x")
    assert [piece.word for piece in pieces][-1:] == ["w1x"]
    assert [piece.word async for piece in later][-1:] == ["w1x"]
    assert spent(desk) == pytest.approx([0.5] * 2, rel=0.01)


@over("wrong", [0, -1.0, math.inf, math.nan, True, "2", None])
def test_what_is_no_epsilon_is_refused(wrong):
    with pytest.raises(dp.ParameterError, match="epsilon > 0"), epsilon(wrong):
        pass


@pytest.mark.parametrize("wrong", ["", " ", 3, None])
def test_a_subject_has_a_name(wrong):
    with pytest.raises(dp.ParameterError, match="subject"), subject(wrong):
        pass


def test_a_chat_engine_keeps_the_histories_apart(probe):
    inner = simple_chat(probe.llama_openai())
    engine = DPChatEngine(probe.session(), inner, extractor=probe.extractor)
    with subject("ann"):
        engine.chat(probe.new_text())
    with subject("bob"):
        assert engine.chat_history == []
        pieces = engine.stream_chat("w1x").response_gen
    assert probe.canary not in "".join(pieces)
    with subject("bob"):
        assert [message.content for message in engine.chat_history][:1] == ["w1x"]
    with subject("ann"):
        assert probe.canary in str(engine.chat_history[0].content)
    assert engine.chat_history == []
    assert not probe.leaks()


# a public text in place of the error ---------------------------------------------------------


@pytest.fixture
def poor(probe, tmp_path):
    """A session of which every subject has nine nats: a text costs four a token."""
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path / 'books.db'}", budget=9.0)
    own = probe.sanitizer()
    return dp.Session(dp.Sanitizer(own.mechanism, own.space, ledger=ledger, subject="all"))


@pytest.mark.parametrize("path", MODEL)
def test_a_fixed_reply_where_the_budget_is_exhausted(path, probe, poor):
    model = DPLLM(poor, probe.llama_openai(), on_exhausted=SORRY)
    answers = []
    while SORRY not in answers:
        answers.append(told(MODEL[path](model, probe.new_text())[-1]))
        assert len(answers) < 10
    assert len(probe.remote.requests) == len(answers) - 1 > 1
    with subject("bob"):
        assert told(MODEL[path](model, probe.new_text())[-1]) != SORRY
    assert not probe.leaks()


@pytest.mark.parametrize("conversation", [None, "thread-1"])
def test_a_fixed_reply_may_stand_in_the_history(conversation, probe, poor):
    """As a chat engine's memory keeps it; other words that the model did not say may not."""
    model = DPLLM(poor, probe.llama_openai(), on_exhausted=SORRY, conversation=conversation)
    engine = simple_chat(model)
    answers = [str(engine.chat(probe.new_text())) for _ in range(6)]
    assert answers[-3:] == [SORRY] * 3
    with pytest.raises(dp.EventRefused):
        model.chat([user("w1x"), said(SORRY), user("w2x"), said(probe.private_text)])
    assert not probe.remote.saw(probe.canary)
