"""DPRetriever: a raw search inside, released documents outside."""

import functools
import types
from typing import Any, ClassVar

import httpx
import langsmith
import openai
import pytest
import requests
from langchain_core.callbacks import StdOutCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import DPDocumentTransformer, DPRetriever
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import ConfigDict
from support.cases import over
from support.contract import Probe, TraceSafeContract, fallback_calls, runnable_calls

from dp_middleware.errors import ParameterError, UntrustedHost
from dp_middleware.models.trust import Location


class Mine(BaseRetriever):
    """The user's own."""

    part: Any = None
    model_config = ConfigDict(arbitrary_types_allowed=True)

    def _get_relevant_documents(self, query, *, run_manager):
        return []


class Local(Mine):
    """Its author says that it stays here; new documents that repeat the query, of a probe."""

    location: ClassVar = Location()
    ids: bool = True

    def _get_relevant_documents(self, query, *, run_manager, k=2):
        if self.part is None:
            raise RuntimeError(f"no index for {query}")
        return [
            Document(
                page_content=f"{query} {self.part.new_text()}",
                id=self.part.new_id() if self.ids else None,
                metadata={"source": f"s{i}", "title": query},
            )
            for i in range(k)
        ]


def store(probe):
    index = InMemoryVectorStore(DeterministicFakeEmbedding(size=6))
    texts = [f"{probe.private_text} {i}" for i in range(3)]
    index.add_texts(texts, ids=["a", "b", "c"], metadatas=[{"n": i} for i in range(3)])
    return index


FALLBACKS = fallback_calls(Probe.new_text)


class TestContract(TraceSafeContract):
    output = "released"
    calls = runnable_calls(Probe.new_text)
    fallbacks = {"itself": FALLBACKS["itself"], "all of them": FALLBACKS["all of them"]}
    hears = frozenset({"LangChain callbacks", "LangSmith"})

    def adapter(self, probe):
        return DPRetriever(probe.session(), Local(part=probe), public_metadata=["source"])


class TestOnAVectorStore(TraceSafeContract):
    output = "released"
    calls = {"invoke": lambda r, p: r.invoke(p.new_text(), p.config)}
    replays = {
        "invoke": lambda r, p: r.invoke(p.private_text, p.config),
        "ainvoke": lambda r, p: r.ainvoke(p.private_text, p.config),
    }
    refusals = {
        "no text": lambda r, p: r.invoke({"query": p.canary}),
        "in a chain": lambda r, p: (RunnableLambda(lambda x: x.strip()) | r).invoke("public"),
        "no ids": lambda r, p: DPRetriever(p.session(), Local(part=p, ids=False)).invoke(
            p.new_text()
        ),
        "failing search": lambda r, p: DPRetriever(p.session(), Local()).invoke(p.canary),
    }
    test_threads_draw_apart = None  # the documents are the same: see the test below

    def adapter(self, probe):
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
    by_source = DPRetriever(
        probe.session(),
        Local(part=probe, ids=False),
        public_metadata=["source"],
        identify=lambda d: d.metadata["source"],
    )
    found = [each.metadata for each in by_source.invoke("x", k=3)]
    assert found == [{"source": f"s{i}"} for i in range(3)]


def test_a_private_query_is_refused_inside_a_run_and_a_public_one_is_a_tool(probe):
    retriever = store(probe).as_retriever(search_kwargs={"k": 1})
    with pytest.raises(ParameterError, match='query="public"'):
        create_retriever_tool(DPRetriever(probe.session(), retriever), "s", "Search.").invoke("x")
    public = DPRetriever(probe.session(), retriever, query="public")
    search = create_retriever_tool(public, "search", "Search.")
    assert probe.released(search.invoke({"query": "x"}, probe.config))
    assert not probe.leaks()


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


OUTSIDE = {"api_key": "k", "base_url": "https://api.example.com/v1"}
REMOTE = [
    ChatOpenAI(model="m", **OUTSIDE),
    OpenAIEmbeddings(model="m", **OUTSIDE),
    openai.OpenAI(**OUTSIDE),
]
UNKNOWN = [
    lambda part: Mine(part=part),
    by_closure,
    lambda part: stored(type("Keeping", (), {"part": part})()),
    lambda part: stored(lambda query: part),
    lambda part: stored(RunnableLambda(lambda x: part.invoke(x))),
    lambda part: stored(functools.partial(requests.post, part)),
    lambda part: stored(FakeListChatModel(responses=["x"], callbacks=[StdOutCallbackHandler()])),
    lambda part: stored(httpx.Client()),
]


@over("hide", UNKNOWN)
def test_what_is_not_known_is_refused_even_if_its_host_is_trusted(hide, probe):
    retriever = hide(REMOTE[0])
    for trusted in ((), ("api.example.com",)):
        with pytest.raises(UntrustedHost, match=r"cannot tell where|api\.example\.com"):
            DPRetriever(probe.session(), retriever, trusted_hosts=trusted)


@over("remote", REMOTE)
@over(
    "hold",
    [
        lambda part: stored([{"a": (part,)}]),
        lambda part: stored(types.SimpleNamespace(a=[part])),
        lambda part: stored(functools.partial(print, part)),
        lambda part: InMemoryVectorStore(embedding=part).as_retriever(),
    ],
)
def test_a_remote_part_in_a_field_is_refused_unless_its_host_is_trusted(hold, remote, probe):
    with pytest.raises(UntrustedHost, match=r"api\.example\.com"):
        DPRetriever(probe.session(), hold(remote))
    DPRetriever(probe.session(), hold(remote), trusted_hosts=["api.example.com"])


def test_a_part_of_another_package_with_an_address_is_judged_by_it(probe):
    DPRetriever(probe.session(), stored(httpx.Client(base_url="http://localhost")))
    DPRetriever(probe.session(), Local(part=httpx.Client()))  # whose author says where it runs
    for inner in (
        stored(httpx.Client(base_url="http://example.com")),
        stored(langsmith.Client(api_key="k")),
        Local(part=REMOTE[0]),
    ):
        with pytest.raises(UntrustedHost, match="raw text would go to"):
            DPRetriever(probe.session(), inner)


def test_a_query_that_a_remote_model_rewrites_is_refused(probe):
    retrievers = pytest.importorskip("langchain_classic.retrievers")
    inner = store(probe).as_retriever()
    asking = retrievers.MultiQueryRetriever.from_llm(inner, REMOTE[0])
    with pytest.raises(UntrustedHost, match="api"):
        DPRetriever(probe.session(), asking)
    near = retrievers.MultiQueryRetriever.from_llm(inner, probe.chat_openai())
    DPRetriever(probe.session(), retrievers.EnsembleRetriever(retrievers=[near], weights=[1.0]))
