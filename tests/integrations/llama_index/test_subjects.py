"""One component for several users: who pays is told by a block, and nothing is shared."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_dp_middleware import (
    DPLLM,
    DPChatEngine,
    DPNodePostprocessor,
    DPQueryEngine,
    epsilon,
    subject,
)

import dp_middleware as dp

SORRY = "the budget is spent"


@pytest.fixture
def ledger(tmp_path):
    return dp.PrivacyLedger(f"sqlite:///{tmp_path / 'books.db'}", budget=9.0)


def session_on(ledger, probe):
    given = probe.sanitizer()
    return dp.Session(dp.Sanitizer(given.mechanism, given.space, ledger=ledger, subject="all"))


def user(text):
    return ChatMessage(text, role="user")


def query_engine(session, probe):
    index = VectorStoreIndex([TextNode(text="w1x")], embed_model=MockEmbedding(4))
    return DPQueryEngine(session, index.as_query_engine(llm=probe.llama_openai()))


def nodes(session, probe):
    postprocessor = DPNodePostprocessor(session)
    node = NodeWithScore(node=TextNode(id_="n", text=probe.private_text))
    return lambda: postprocessor.postprocess_nodes([node])[0].node.text


COMPONENTS = {
    "chat": lambda s, p: lambda: DPLLM(s, p.llama_openai()).chat([user(p.private_text)]),
    "complete": lambda s, p: lambda: DPLLM(s, p.llama_openai()).complete(p.private_text),
    "query": lambda s, p: lambda: query_engine(s, p).query(p.private_text),
    "nodes": nodes,
}


@pytest.mark.parametrize("kind", COMPONENTS)
def test_the_subject_of_the_block_pays(kind, probe, ledger):
    call = COMPONENTS[kind](session_on(ledger, probe), probe)
    with subject("ann"), subject("bob"):
        call()
    with epsilon(0.5), subject("ann"):
        call()
    assert 0 < ledger.spent("ann") <= 0.5 < ledger.spent("bob")
    assert ledger.spent("all") == 0
    call()
    assert ledger.spent("all") == ledger.spent("bob")


def test_conversations_share_nothing(probe, ledger):
    model = DPLLM(session_on(ledger, probe), probe.llama_openai())
    history = [user(probe.private_text)]
    with subject("ann"):
        history += [model.chat(history).message, user("w2x")]
        model.chat(history)
    with subject("bob"), pytest.raises(dp.DPMiddlewareError):
        model.chat(history)
    with subject("bob"):
        model.chat(history[:1])
    first, _, other = (request["messages"][0]["content"] for request in probe.remote.requests)
    assert first != other
    assert not probe.leaks()


def test_a_stream_that_is_read_behind_its_block_is_noted_for_its_subject(probe, ledger):
    model = DPLLM(session_on(ledger, probe), probe.llama_openai())
    history = [user("w1x")]
    with subject("ann"):
        pieces = model.stream_chat(history)
    history += [list(pieces)[-1].message, user("w2x")]
    with subject("ann"):
        model.chat(history)


def test_a_chat_engine_keeps_the_histories_apart(probe, ledger):
    inner = SimpleChatEngine.from_defaults(llm=probe.llama_openai(), memory_cls=ChatMemoryBuffer)
    engine = DPChatEngine(session_on(ledger, probe), inner, extractor=probe.extractor)
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


async def _apieces(stream):
    return [piece async for piece in await stream][-1]


PATHS = {
    "chat": lambda m, t: m.chat([user(t)]).message.content,
    "achat": lambda m, t: asyncio.run(m.achat([user(t)])).message.content,
    "stream_chat": lambda m, t: list(m.stream_chat([user(t)]))[-1].message.content,
    "astream_chat": lambda m, t: asyncio.run(_apieces(m.astream_chat([user(t)]))).message.content,
    "complete": lambda m, t: m.complete(t).text,
    "acomplete": lambda m, t: asyncio.run(m.acomplete(t)).text,
    "stream_complete": lambda m, t: list(m.stream_complete(t))[-1].text,
    "astream_complete": lambda m, t: asyncio.run(_apieces(m.astream_complete(t))).text,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_fixed_reply_where_the_budget_is_exhausted(path, probe, ledger):
    model = DPLLM(session_on(ledger, probe), probe.llama_openai(), on_exhausted=SORRY)
    answers = []
    while SORRY not in answers:
        answers.append(PATHS[path](model, probe.new_text()))
        assert len(answers) < 10
    assert len(probe.remote.requests) == len(answers) - 1 > 1
    with subject("bob"):
        assert PATHS[path](model, probe.new_text()) != SORRY
    assert not probe.leaks()


@pytest.mark.parametrize("wrong", ["", " ", 3, None])
def test_a_subject_has_a_name(wrong):
    with pytest.raises(dp.ParameterError, match="subject"), subject(wrong):
        pass
