"""Retrieval with extraction: the remote model reads released documents, the local one raw ones."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langchain_openai")

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import DPAgentMiddleware, DPRetriever, InferDPTChatModel
from support.contract import ToolCall, TraceSafeContract

import dp_middleware as dp


def raw_of(probe, name):
    return f"note {name} says {probe.private_text}"


def store(probe):
    index = InMemoryVectorStore(DeterministicFakeEmbedding(size=6))
    index.add_documents([Document(raw_of(probe, name), id=name) for name in "ab"])
    return index.as_retriever()


class App:
    """Retrieves, then asks, as a program does."""

    def __init__(self, probe):
        session, passages = probe.session(), dp.Passages()
        self.retriever = DPRetriever(session, store(probe), passages=passages)
        self.model = InferDPTChatModel(
            session, remote=probe.chat_openai(), extractor=probe.extractor, passages=passages
        )

    def messages(self, question, config=None):
        found = self.retriever.invoke(question, config)
        notes = "\n\n".join(each.page_content for each in found)
        return [SystemMessage(f"By these notes:\n{notes}"), HumanMessage(question)]


async def _ask_in_pieces(app, probe):
    messages = app.messages(probe.new_text(), probe.config)
    return [piece async for piece in app.model.astream(messages, probe.config)]


class TestContract(TraceSafeContract):
    output = "private"
    test_threads_draw_apart = None  # the documents are the same
    calls = {  # noqa: RUF012
        "invoke": lambda a, p: a.model.invoke(a.messages(p.new_text(), p.config), p.config),
        "astream": lambda a, p: asyncio.run(_ask_in_pieces(a, p)),
    }

    def adapter(self, probe):
        return App(probe)

    def exposed(self, adapter, probe):
        return [adapter.retriever, adapter.model]


def test_the_extractor_reads_the_raw_documents(probe):
    app = App(probe)
    messages = app.messages(probe.new_text(), probe.config)
    assert not probe.secrets_in(messages[0].text)
    app.model.invoke(messages, probe.config)
    [asked] = probe.local.requests
    assert all(raw_of(probe, name) in asked["messages"][-1]["content"] for name in "ab")
    [sent] = probe.remote.requests
    assert messages[0].text in sent["messages"][-1]["content"]
    assert not probe.leaks()


def test_a_human_message_is_no_place_for_documents(probe):
    """Whoever writes a released text there must not be shown what it was made of."""
    app = App(probe)
    released = app.messages("w1x")[0].text
    app.model.invoke([HumanMessage(released)])
    assert probe.canary not in probe.local.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("path", ["sync", "async"])
def test_an_agents_extractor_reads_what_its_tool_found(path, probe):
    session, passages = probe.session(), dp.Passages()
    retriever = DPRetriever(session, store(probe), query="public", passages=passages)
    search = create_retriever_tool(retriever, "search", "Search.")
    ours = DPAgentMiddleware(
        session,
        extractor=probe.extractor,
        passages=passages,
        public_tools=["search"],
        traced="allow",
    )
    probe.remote.script.extend([[ToolCall(name="search", arguments={"query": "w1x"})], "done"])
    agent = create_agent(probe.chat_openai(), [search], middleware=[ours])
    asked = {"messages": [("user", "why")]}
    result = agent.invoke(asked) if path == "sync" else asyncio.run(agent.ainvoke(asked))
    assert all(raw_of(probe, name) in result["messages"][-1].text for name in "ab")
    assert probe.canary not in result["messages"][-2].text
    assert not probe.remote.saw(probe.canary)
