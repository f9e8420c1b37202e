"""The trace-safe contract for the adapters of nodes and queries, on every way of calling them."""

from types import SimpleNamespace

import pytest
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import Document, ImageNode, NodeWithScore, QueryBundle, TextNode
from llama_index_dp_middleware import (
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    unrecorded,
)
from support.llama_index import LLAMA, Contract, index_of


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
        "call": lambda step, probe: step([document(probe, id_="d", text=probe.private_text)])
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
        )
    }
    refusals = {
        "image": lambda step, probe: step.postprocess_nodes(
            [NodeWithScore(node=chunk(probe)), NodeWithScore(node=image(probe))]
        )
    }

    def adapter(self, probe):
        return DPNodePostprocessor(probe.session())


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


def with_remote_part(engine, probe):
    """A retriever that holds a remote model is refused when an engine is made with it."""
    remote = probe.llama_openai(SimpleNamespace(url="https://models.example/v1"))
    retriever = QueryFusionRetriever([engine._retriever], llm=remote)
    return DPQueryEngine(probe.session(), engine._inner, retriever=retriever)


class TestLocalRetrieval(Contract):
    """The raw query meets a local index of raw text."""

    calls = ASKED
    refusals = {"a remote model": with_remote_part}
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

    def adapter(self, probe):
        inner, local = index_of("w1x").as_query_engine(llm=probe.llama_openai()), probe.local
        return DPQueryEngine(probe.session(), inner, extractor=probe.llama_openai(local))


@pytest.mark.slow
class TestStreamedExtraction(TestExtraction):
    """By a function, from an engine that streams itself."""

    calls = TestStreamingRetrieval.calls

    def adapter(self, probe):
        inner = index_of("w1x").as_query_engine(llm=probe.llama_openai(), streaming=True)
        session = probe.session()
        return DPQueryEngine(session, inner, extractor=probe.extractor, streaming=True)
