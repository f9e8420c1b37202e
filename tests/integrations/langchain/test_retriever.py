"""DPRetriever: a raw search inside, released documents outside."""

import functools
import types
from typing import Any, ClassVar

import httpx
import langsmith
import openai
import pytest
import requests
from langchain.agents import create_agent
from langchain_core.callbacks import StdOutCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import DPAgentMiddleware, DPDocumentTransformer, DPRetriever
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import ConfigDict
from support.cases import over
from support.contract import Probe, ToolCall, TraceSafeContract, fallback_calls, runnable_calls

from dp_middleware.certification import storage
from dp_middleware.errors import NotPrepared, ParameterError, UntrustedHost
from dp_middleware.models.trust import Location


class Local(BaseRetriever):
    """Answers with new documents that repeat the query."""

    location: ClassVar = Location()
    probe: Probe
    ids: bool = True

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def _get_relevant_documents(self, query, *, run_manager, k=2):
        return [
            Document(
                page_content=f"{query} {self.probe.new_text()}",
                id=self.probe.new_id() if self.ids else None,
                metadata={"source": f"s{i}", "title": query},
            )
            for i in range(k)
        ]


class Failing(Local):
    def _get_relevant_documents(self, query, *, run_manager):
        raise RuntimeError(f"no index for {query}")


def store(probe: Probe) -> InMemoryVectorStore:
    index = InMemoryVectorStore(DeterministicFakeEmbedding(size=6))
    texts = [f"{probe.private_text} {i}" for i in range(3)]
    index.add_texts(texts, ids=["a", "b", "c"], metadatas=[{"n": i} for i in range(3)])
    return index


HEARS = {"LangChain callbacks", "LangSmith"}


class TestContract(TraceSafeContract):
    output = "released"
    calls = runnable_calls(lambda probe: probe.new_text())
    fallbacks = fallback_calls(lambda probe: probe.new_text())
    hears = HEARS

    def adapter(self, probe: Probe) -> DPRetriever:
        return DPRetriever(probe.session(), Local(probe=probe), public_metadata=["source"])


STORE_CALLS = {"invoke": lambda r, p: r.invoke(p.new_text(), p.config)}
STORE_REPLAYS = {
    "invoke": lambda r, p: r.invoke(p.private_text, p.config),
    "ainvoke": lambda r, p: r.ainvoke(p.private_text, p.config),
}
STORE_REFUSALS = {
    "no text": lambda r, p: r.invoke({"query": p.canary}),
    "in a chain": lambda r, p: (RunnableLambda(lambda x: x.strip()) | r).invoke("public"),
    "no ids": lambda r, p: DPRetriever(p.session(), Local(probe=p, ids=False)).invoke(p.new_text()),
    "failing search": lambda r, p: DPRetriever(p.session(), Failing(probe=p)).invoke(p.canary),
}


class TestOnAVectorStore(TraceSafeContract):
    output = "released"
    calls = STORE_CALLS
    replays = STORE_REPLAYS
    refusals = STORE_REFUSALS
    test_threads_draw_apart = None  # the documents are the same: see the test below

    def adapter(self, probe: Probe) -> DPRetriever:
        return DPRetriever(probe.session(), store(probe).as_retriever(search_kwargs={"k": 3}))


def test_a_document_found_again_costs_nothing_nor_does_one_released_for_the_index(probe):
    session = probe.session()
    index = store(probe)
    retriever = DPRetriever(session, index.as_retriever(search_kwargs={"k": 3}))
    raw = index.get_by_ids(["a", "b"])
    released = DPDocumentTransformer(session).transform_documents(raw)
    found = {each.id: each for query in "xyz" for each in retriever.invoke(query)}
    assert set(found) == {"a", "b", "c"}
    assert [found["a"], found["b"]] == released
    assert len(probe.charges) == 3
    assert not probe.leaks(found=found)


def test_metadata_is_cut_and_identify_names_documents(probe):
    inner = Local(probe=probe, ids=False)
    by_source = DPRetriever(
        probe.session(), inner, public_metadata=["source"], identify=lambda d: d.metadata["source"]
    )
    assert [each.metadata for each in by_source.invoke("x", k=3)] == [
        {"source": f"s{i}"} for i in range(3)
    ]


def test_a_private_query_is_refused_inside_a_run_and_a_public_one_is_a_tool(probe):
    retriever = store(probe).as_retriever(search_kwargs={"k": 1})
    with pytest.raises(ParameterError, match='query="public"'):
        create_retriever_tool(DPRetriever(probe.session(), retriever), "s", "Search.").invoke("x")
    public = DPRetriever(probe.session(), retriever, query="public")
    search = create_retriever_tool(public, "search", "Search.")
    assert probe.released(search.invoke({"query": "x"}, probe.config))
    assert not probe.leaks()


def test_an_agent_searches_and_what_was_released_is_not_released_again(probe):
    session = probe.session()
    retriever = DPRetriever(session, Local(probe=probe), query="public")
    search = create_retriever_tool(retriever, "search", "Search.")
    middleware = DPAgentMiddleware(session, public_tools=["search"], traced="allow")
    probe.remote.script.extend([[ToolCall(name="search", arguments={"query": "w1x"})], "done"])
    agent = create_agent(probe.chat_openai(), [search], middleware=[middleware])
    agent.invoke({"messages": [("user", probe.new_text())]})
    assert len(probe.charges) == 3
    [*_, result] = probe.remote.requests[-1]["messages"]
    assert result["role"] == "tool"
    assert probe.released(result["content"])
    assert not probe.remote.saw(probe.canary)


def test_an_epsilon_that_is_not_prepared_is_refused(probe, tmp_path, monkeypatch):
    """No call waits for a calibration, and none is charged for one that does not come."""
    monkeypatch.setenv("DP_MIDDLEWARE_CACHE", str(tmp_path))
    monkeypatch.setattr(storage, "_WORTH_STORING", 1)
    session = probe.session()
    retriever, config = DPRetriever(session, Local(probe=probe)), {"dp_epsilon": 0.5}
    with pytest.raises(NotPrepared, match=r"session\.at\(0\.5\)"):
        retriever.invoke("x", {"configurable": config})
    assert not probe.charges
    session.at(0.5)
    retriever.invoke("x", {"configurable": config})
    assert probe.charges


class Mine(BaseRetriever):
    """The user's own."""

    part: Any = None
    model_config = ConfigDict(arbitrary_types_allowed=True)

    def _get_relevant_documents(self, query, *, run_manager):
        return []


class Said(Mine):
    """Its author says that it stays here."""

    @property
    def location(self):
        return Location()


class Page(Document):
    """Asks what it holds."""

    client: Any

    def ask(self, query):
        return self.client.invoke(query)


def by_closure(part):
    class Inner(BaseRetriever):
        """Asks what is in the closure of its method."""

        def _get_relevant_documents(self, query, *, run_manager):
            return part.invoke(query)

    return Inner()


def stored(part):
    """A store of LangChain's own that holds something."""
    index = InMemoryVectorStore(DeterministicFakeEmbedding(size=2))
    index.store["a"] = {"id": "a", "vector": [0.0, 1.0], "text": "a", "metadata": {"part": part}}
    return index.as_retriever()


OUTSIDE = "https://api.example.com/v1"
REMOTE = {
    "model": lambda: ChatOpenAI(model="m", api_key="k", base_url=OUTSIDE),
    "embeddings": lambda: OpenAIEmbeddings(model="m", api_key="k", base_url=OUTSIDE),
    "client": lambda: openai.OpenAI(api_key="k", base_url=OUTSIDE),
}
UNKNOWN = {
    "own retriever": lambda part: Mine(part=part),
    "own retriever by its closure": by_closure,
    "own object": lambda part: stored(type("Keeping", (), {"part": part})()),
    "own function": lambda part: stored(lambda query: part),
    "own runnable": lambda part: stored(RunnableLambda(lambda x: part.invoke(x))),
    "partial": lambda part: stored(functools.partial(requests.post, part)),
    "document": lambda part: stored(Page(page_content="x", client=part)),
    "key": lambda part: stored({(lambda query: part): 1}),
    "generator": lambda part: stored(each for each in [part]),
    "handler": lambda part: stored(
        FakeListChatModel(responses=["x"], callbacks=[StdOutCallbackHandler()])
    ),
    "httpx": lambda part: stored(httpx.Client()),
    "module": lambda part: stored(requests),
}


@over("hide", UNKNOWN)
def test_what_is_not_known_is_refused_even_if_its_host_is_trusted(hide, probe):
    retriever = UNKNOWN[hide](REMOTE["model"]())
    for trusted in ((), ("api.example.com",)):
        with pytest.raises(UntrustedHost, match=r"cannot tell where|api\.example\.com"):
            DPRetriever(probe.session(), retriever, trusted_hosts=trusted)


@over("remote", REMOTE)
@over(
    "hold",
    [
        lambda part: stored([{"a": (part,)}]),
        lambda part: stored(types.MappingProxyType({"a": part})),
        lambda part: stored(types.SimpleNamespace(a=[part])),
        lambda part: stored(types.MethodType(print, part)),
        lambda part: stored(functools.partial(print, part)),
        lambda part: InMemoryVectorStore(embedding=part).as_retriever(),
    ],
)
def test_a_remote_part_in_a_field_is_refused_unless_its_host_is_trusted(hold, remote, probe):
    retriever = hold(REMOTE[remote]())
    with pytest.raises(UntrustedHost, match=r"api\.example\.com"):
        DPRetriever(probe.session(), retriever)
    DPRetriever(probe.session(), retriever, trusted_hosts=["api.example.com"])


def test_a_retriever_of_your_own_is_let_in_if_it_says_where_it_runs(probe):
    DPRetriever(probe.session(), Said(part=httpx.Client()))
    with pytest.raises(UntrustedHost, match=r"api\.example\.com"):
        DPRetriever(probe.session(), Said(part=REMOTE["model"]()))


def test_a_part_of_another_package_with_an_address_is_judged_by_it(probe):
    DPRetriever(probe.session(), stored(httpx.Client(base_url="http://localhost")))
    for part in (httpx.Client(base_url="http://example.com"), langsmith.Client(api_key="k")):
        with pytest.raises(UntrustedHost, match="raw text would go to"):
            DPRetriever(probe.session(), stored(part))


def test_a_query_that_a_remote_model_rewrites_is_refused(probe):
    retrievers = pytest.importorskip("langchain_classic.retrievers")
    inner = store(probe).as_retriever()
    asking = retrievers.MultiQueryRetriever.from_llm(inner, REMOTE["model"]())
    with pytest.raises(UntrustedHost, match="api"):
        DPRetriever(probe.session(), asking)
    near = retrievers.MultiQueryRetriever.from_llm(inner, probe.chat_openai())
    DPRetriever(probe.session(), retrievers.EnsembleRetriever(retrievers=[near], weights=[1.0]))
