"""A block at a smaller epsilon: every component heeds it, never above its own, charged as used."""

from __future__ import annotations

import asyncio
import math
from uuid import uuid4

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_dp_middleware import (
    DPLLM,
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    epsilon,
)
from pydantic import BaseModel

import dp_middleware as dp
from dp_middleware.certification import storage
from dp_middleware.errors import NotPrepared
from dp_middleware.testing import ToolCall

PER_NAT = 10**12
PROMPT = PromptTemplate("w1x {topic}")


class Found(BaseModel):
    """What was found."""

    word: str


def spent(desk):
    """Epsilon of every charge so far, in nats."""
    return [row.epsilon / PER_NAT for row in desk.ledger.rows("user") if row.event == "charge"]


def node():
    return TextNode(text="w1x w2x")


def engine_of(desk, session):
    inner = VectorStoreIndex([node()], embed_model=MockEmbedding(4))
    return DPQueryEngine(session, inner.as_query_engine(llm=desk.llama_openai()))


def llm(desk, session):
    """In a conversation of its own: an equal message in another one is another event."""
    return DPLLM(session, desk.llama_openai(), conversation=str(uuid4()))


CALLS = {
    "chat": lambda desk, s: llm(desk, s).chat([ChatMessage("w1x w2x")]),
    "achat": lambda desk, s: llm(desk, s).achat([ChatMessage("w1x w2x")]),
    "complete": lambda desk, s: DPLLM(s, desk.llama_openai()).complete("w1x w2x"),
    "acomplete": lambda desk, s: DPLLM(s, desk.llama_openai()).acomplete("w1x w2x"),
    "query": lambda desk, s: engine_of(desk, s).query("w1x w2x"),
    "aquery": lambda desk, s: engine_of(desk, s).aquery("w1x w2x"),
    "transform": lambda desk, s: DPQueryTransform(s).run("w1x w2x"),
    "ingestion": lambda desk, s: DPTransform(s)([node()]),
    "asynchronous ingestion": lambda desk, s: DPTransform(s).acall([node()]),
    "retrieval": lambda desk, s: DPNodePostprocessor(s).postprocess_nodes(
        [NodeWithScore(node=node())], query_str="w1x"
    ),
}


async def _awaited(found):
    return await found


def result_of(call, desk, session):
    found = call(desk, session)
    return asyncio.run(_awaited(found)) if asyncio.iscoroutine(found) else found


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_block_lowers_and_never_raises(call, desk):
    session = desk.session()
    own = session.sanitizer.certificate.epsilon
    for asked in (0.5, own / 2, own, 100.0):
        with epsilon(asked):
            result_of(call, desk, session)
    result_of(call, desk, session)
    lower = [session.at(each).sanitizer.certificate.epsilon for each in (0.5, own / 2)]
    assert spent(desk) == pytest.approx([*lower, own, own, own])
    assert lower == pytest.approx([0.5, own / 2], rel=0.01)
    assert all(low <= asked for low, asked in zip(lower, (0.5, own / 2), strict=True))


def test_an_epsilon_that_is_not_prepared_is_refused(desk, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(storage, "_WORTH_STORING", 1)
    session = desk.session()
    with epsilon(0.5):
        with pytest.raises(NotPrepared, match=r"session\.at\(0\.5\)"):
            DPQueryTransform(session).run("w1x")
        assert spent(desk) == []
        session.at(0.5)
        DPQueryTransform(session).run("w1x")
    assert spent(desk) == pytest.approx([0.5], rel=0.01)


def test_of_nested_blocks_the_smallest_holds(desk):
    transform = DPQueryTransform(desk.session())
    with epsilon(0.5):
        with epsilon(2.0):
            transform.run("w1x")
        transform.run("w1x")
    with epsilon(2.0), epsilon(0.5):
        transform.run("w1x")
    assert spent(desk) == pytest.approx([0.5] * 3, rel=0.01)


def test_an_event_is_another_one_at_another_epsilon(desk):
    """Answers of the remote model are known at all of them."""
    model, asked = DPLLM(desk.session(), desk.llama_openai()), [ChatMessage("w1x w2x")]
    asked.append(model.chat(asked).message)
    asked.append(ChatMessage("w3x"))
    bundle, transform = QueryBundle("w4x"), DPQueryTransform(desk.session())
    for _ in range(2):
        with epsilon(0.5):
            model.chat(asked)
            transform.run(bundle)
    assert desk.charges == [2, 2, 1, 1]
    assert spent(desk)[1:] == pytest.approx([0.5] * 3, rel=0.01)


def test_a_stream_that_is_read_later_was_asked_for_in_the_block(desk):
    desk.remote.reply = [ToolCall(name="Found", arguments={"word": "w1x"})]
    model = DPLLM(desk.session(), desk.llama_openai())
    with epsilon(0.5):
        pieces = model.stream_structured_predict(Found, PROMPT, topic="w2x")
    assert [each.word for each in pieces][-1:] == ["w1x"]
    assert spent(desk) == pytest.approx([0.5], rel=0.01)


@pytest.mark.asyncio
async def test_an_asynchronous_stream_that_is_read_later(desk):
    desk.remote.reply = [ToolCall(name="Found", arguments={"word": "w1x"})]
    model = DPLLM(desk.session(), desk.llama_openai())
    with epsilon(0.5):
        pieces = await model.astream_structured_predict(Found, PROMPT, topic="w2x")
    assert [each.word async for each in pieces][-1:] == ["w1x"]
    assert spent(desk) == pytest.approx([0.5], rel=0.01)


@pytest.mark.parametrize("wrong", [0, -1.0, math.inf, math.nan, True, "2", None])
def test_what_is_no_epsilon_is_refused(wrong):
    with pytest.raises(dp.ParameterError, match="epsilon > 0"), epsilon(wrong):
        pass
