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


def found():
    return [NodeWithScore(node=TextNode(text=TEXT))]


CALLS = {path: lambda d, s, p=path: MODEL[p](llm(d, s), TEXT) for path in MODEL} | {
    "query": lambda d, s: engine_of(d, s).query(TEXT),
    "aquery": lambda d, s: asyncio.run(engine_of(d, s).aquery(TEXT)),
    "transform": lambda d, s: DPQueryTransform(s).run(TEXT),
    "ingestion": lambda d, s: DPTransform(s)([TextNode(text=TEXT)]),
    "asynchronous ingestion": lambda d, s: asyncio.run(DPTransform(s).acall([TextNode(text=TEXT)])),
    "retrieval": lambda d, s: DPNodePostprocessor(s).postprocess_nodes(found(), query_str="w1x"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_smallest_epsilon_of_blocks_holds_and_the_subject_of_the_last_pays(call, desk):
    session = desk.session()
    own = session.sanitizer.certificate.epsilon
    for outer, inner in ((0.5, own), (own, 0.5), (100.0, 100.0)):
        with epsilon(outer), epsilon(inner):
            call(desk, session)
    lower = session.at(0.5).sanitizer.certificate.epsilon
    assert 0.495 <= lower <= 0.5
    assert spent(desk) == pytest.approx([lower, lower, own])
    with subject("ann"), subject("bob"), epsilon(0.5):
        call(desk, session)
    call(desk, session)
    assert spent(desk) == pytest.approx([lower, lower, own, own])
    assert (spent(desk, "ann"), spent(desk, "bob")) == ([], pytest.approx([lower]))


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


def test_what_is_no_epsilon_or_subject_is_refused():
    for wrong in (0, -1.0, math.inf, math.nan, True, "2", None):
        with pytest.raises(dp.ParameterError, match="epsilon > 0"), epsilon(wrong):
            pass
    for wrong in ("", " ", 3, None):
        with pytest.raises(dp.ParameterError, match="subject"), subject(wrong):
            pass
