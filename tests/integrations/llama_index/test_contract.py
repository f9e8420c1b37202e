"""The trace-safe contract for the adapters of nodes and queries, on every way of calling them."""
# ruff: noqa: RUF012 - the tables of a contract are class attributes

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import (
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
    VectorIndexRetriever,
)
from llama_index.core.schema import Document, ImageNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMSingleSelector, PydanticSingleSelector
from llama_index.core.tools import RetrieverTool
from llama_index_dp_middleware import (
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    unrecorded,
)

from dp_middleware.testing import TraceSafeContract

LLAMA = frozenset({"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"})


class Contract(TraceSafeContract):
    requires = LLAMA


# nodes -------------------------------------------------------------------------------------------


def document(probe, **fields):
    secret = {"author": probe.canary}
    fields = {"id_": probe.new_id(), "text": probe.new_text(), **fields}
    return Document(metadata=secret, excluded_llm_metadata_keys=[probe.canary], **fields)


def chunk(probe, **fields):
    """As a splitter makes it: its source's entry holds metadata and an unsalted hash."""
    source = document(probe)
    chunk = TextNode(id_=probe.new_id(), text=probe.new_text(), embedding=[0.5], **fields)
    chunk.metadata = dict(source.metadata)
    chunk.relationships = {name: source.as_related_node_info() for name in ("1", "2", "3", "4")} | {
        "5": [source.as_related_node_info()]
    }
    return chunk


def image(probe):
    return ImageNode(id_=probe.new_id(), text=probe.new_text(), image=probe.canary)


class TestDPTransform(Contract):
    output = "released"
    calls = {
        "call": lambda step, probe: step([document(probe), chunk(probe)]),
        "acall": lambda step, probe: step.acall([document(probe), chunk(probe)]),
    }
    replays = {
        "call": lambda step, probe: step([document(probe, id_="d", text=probe.private_text)]),
    }
    refusals = {
        "image": lambda step, probe: step([document(probe), image(probe)]),
        "media": lambda step, probe: step(
            [document(probe), document(probe, image_resource={"text": probe.canary})]
        ),
        "no node": lambda step, probe: step.acall([document(probe), probe.canary]),
    }

    def adapter(self, probe):
        return DPTransform(probe.session())


class TestDPNodePostprocessor(Contract):
    output = "released"
    calls = {
        "sync": lambda step, probe: step.postprocess_nodes(
            [NodeWithScore(node=chunk(probe), score=0.5)], query_str=probe.private_text
        ),
        "async": lambda step, probe: step.apostprocess_nodes([NodeWithScore(node=chunk(probe))]),
    }
    replays = {
        "twice in one list": lambda step, probe: step.postprocess_nodes(
            [NodeWithScore(node=document(probe, id_="d", text=probe.private_text))] * 2
        ),
    }
    refusals = {
        "image": lambda step, probe: step.postprocess_nodes(
            [NodeWithScore(node=chunk(probe)), NodeWithScore(node=image(probe))]
        )
    }

    def adapter(self, probe):
        return DPNodePostprocessor(probe.session())


# queries -----------------------------------------------------------------------------------------


def bundle(probe):
    raw = probe.new_text()
    return QueryBundle(raw, custom_embedding_strs=[raw], embedding=[0.5] * 4)


class TestDPQueryTransform(Contract):
    output = "released"
    calls = {
        "text": lambda transform, probe: transform.run(probe.new_text()),
        "bundle": lambda transform, probe: transform(bundle(probe)),
        "async": lambda transform, probe: transform.arun(bundle(probe)),
    }
    refusals = {
        "image": lambda transform, probe: transform.run(QueryBundle("", image_path=probe.canary))
    }

    def adapter(self, probe):
        return DPQueryTransform(probe.session())


def index_of(*texts):
    nodes = [TextNode(id_=f"n{k}", text=text) for k, text in enumerate(texts)]
    return VectorStoreIndex(nodes, embed_model=MockEmbedding(4))


async def answered(engine, probe):
    """A streamed answer, read to its end."""
    response = await engine.aquery(probe.new_text())
    return "".join([piece async for piece in response.async_response_gen()])


ASKED = {
    "query": lambda engine, probe: engine.query(probe.new_text()),
    "aquery": lambda engine, probe: engine.aquery(probe.new_text()),
    "bundle": lambda engine, probe: engine.query(bundle(probe)),
}


def tried_twice(engine, probe):
    """One bundle is one event."""
    asked = bundle(probe)
    try:
        return engine.query(asked)
    except Exception:
        return engine.query(asked)


class TestDPQueryEngine(Contract):
    calls = ASKED
    retries = {"query": tried_twice}
    hears = LLAMA
    refusals = {
        "image": lambda engine, probe: engine.query(QueryBundle("", image_path=probe.canary))
    }

    def adapter(self, probe):
        inner = index_of("w1x w2x", "w3x").as_query_engine(llm=probe.llama_openai())
        return DPQueryEngine(probe.session(), inner)


def with_remote_part(make):
    """Made from a remote model, a retriever is refused when the engine is."""

    def built(engine, probe):
        remote = probe.llama_openai(SimpleNamespace(url="https://models.example/v1"))
        retriever = make(engine._search.retriever, remote)
        return DPQueryEngine(probe.session(), engine._inner, retriever=retriever)

    return built


def routed(retriever, selector):
    tool = RetrieverTool.from_defaults(retriever, description="all")
    return RouterRetriever(selector=selector, retriever_tools=[tool], llm=MockLLM())


class TestLocalRetrieval(Contract):
    """The raw query meets a local index of raw text."""

    calls = ASKED
    refusals = {
        "a selector": with_remote_part(
            lambda found, remote: routed(found, PydanticSingleSelector.from_defaults(llm=remote))
        ),
        "a rewriter": with_remote_part(
            lambda found, remote: QueryFusionRetriever([found], llm=remote)
        ),
        "below another": with_remote_part(
            lambda found, remote: RecursiveRetriever(
                "a", {"a": routed(found, LLMSingleSelector.from_defaults(llm=remote))}
            )
        ),
        "an object": with_remote_part(
            lambda found, remote: VectorIndexRetriever(
                found._index, object_map={"a": QueryFusionRetriever([found], llm=remote)}
            )
        ),
    }
    hears = LLAMA
    streaming = False
    test_threads_draw_apart = None  # a node is released once, so calls charge different numbers

    def adapter(self, probe):
        with unrecorded():  # the index is made elsewhere
            index = index_of(probe.private_text, f"more of {probe.canary}")
        model = probe.llama_openai()
        inner = index.as_query_engine(llm=model, streaming=self.streaming)
        return DPQueryEngine(probe.session(), inner, retriever=index.as_retriever())


class TestStreamingRetrieval(TestLocalRetrieval):
    """The inner engine's own stream, read when the query is over."""

    calls = {
        "query": lambda engine, probe: engine.query(probe.new_text()).response_gen,
        "aquery": answered,
    }
    streaming = True


class TestExtraction(Contract):
    calls = ASKED
    output = "private"
    streaming = False

    def adapter(self, probe):
        return DPQueryEngine(
            probe.session(),
            index_of("w1x").as_query_engine(llm=probe.llama_openai()),
            extractor=probe.llama_openai(probe.local),
            streaming=self.streaming,
        )


@pytest.mark.slow
class TestStreamedExtraction(TestExtraction):
    calls = {
        "query": lambda engine, probe: engine.query(probe.new_text()).response_gen,
        "aquery": answered,
    }
    streaming = True


@pytest.mark.slow
class TestExtractionByAFunction(TestExtraction):
    """From an engine that streams itself."""

    def adapter(self, probe):
        inner = index_of("w1x").as_query_engine(llm=probe.llama_openai(), streaming=True)
        return DPQueryEngine(probe.session(), inner, extractor=probe.extractor)
