"""Blocks of calls: every component heeds a smaller epsilon and who pays; subjects share nothing."""

import asyncio
import math
from uuid import uuid4

import pytest
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_dp_middleware import (
    DPLLM,
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    epsilon,
    subject,
)
from pydantic import BaseModel
from support.cases import over
from support.contract import ToolCall
from support.llama_index import MODEL, index_of

import dp_middleware as dp

PROMPT = PromptTemplate("w1x {topic}")
TEXT = "w1x w2x"


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
