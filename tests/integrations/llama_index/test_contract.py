"""The trace-safe contract for the adapters of nodes and queries, on every way of calling them."""

from types import SimpleNamespace

import pytest
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import Document, ImageNode, NodeWithScore, QueryBundle, TextNode
from llama_index_dp_middleware import (
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    unrecorded,
)
from support.llama_index import LLAMA, Contract, index_of

from dp_middleware.errors import DPMiddlewareError
from dp_middleware.models.trust import Location


def document(probe, **fields):
    secret = {"author": probe.canary}
    fields = {"id_": probe.new_id(), "text": probe.new_text(), **fields}
    return Document(metadata=secret, excluded_llm_metadata_keys=[probe.canary], **fields)


def chunk(probe):
    """As a splitter makes it: its source's entry holds metadata and an unsalted hash."""
    source = document(probe)
    chunk = TextNode(id_=probe.new_id(), text=probe.new_text(), embedding=[0.5])
    chunk.metadata = dict(source.metadata)
    info = source.as_related_node_info()
    chunk.relationships = {**dict.fromkeys("1234", info), "5": [info]}
    return chunk


def image(probe):
    return ImageNode(id_=probe.new_id(), text=probe.new_text(), image=probe.canary)


class TestDPTransform(Contract):
    output = "released"
    calls = {
        "call": lambda step, p: step([document(p), chunk(p)]),
        "acall": lambda step, p: step.acall([document(p), chunk(p)]),
    }
    replays = {"call": lambda step, p: step([document(p, id_="d", text=p.private_text)])}
    refusals = {
        "image": lambda step, p: step([document(p), image(p)]),
        "media": lambda step, p: step(
            [document(p), document(p, image_resource={"text": p.canary})]
        ),
        "no node": lambda step, p: step.acall([document(p), p.canary]),
    }

    def adapter(self, probe):
        return DPTransform(probe.session())


def found(*nodes):
    return [NodeWithScore(node=node, score=0.5) for node in nodes]


class TestDPNodePostprocessor(Contract):
    output = "released"
    calls = {
        "sync": lambda step, p: step.postprocess_nodes(found(chunk(p)), query_str=p.private_text),
        "async": lambda step, p: step.apostprocess_nodes(found(chunk(p))),
    }
    replays = {
        "twice in one list": lambda step, p: step.postprocess_nodes(
            found(document(p, id_="d", text=p.private_text)) * 2
        )
    }
    refusals = {"image": lambda step, p: step.postprocess_nodes(found(chunk(p), image(p)))}

    def adapter(self, probe):
        return DPNodePostprocessor(probe.session())


def bundle(probe):
    raw = probe.new_text()
    return QueryBundle(raw, custom_embedding_strs=[raw], embedding=[0.5] * 4)


class TestDPQueryTransform(Contract):
    output = "released"
    calls = {
        "text": lambda transform, p: transform.run(p.new_text()),
        "bundle": lambda transform, p: transform(bundle(p)),
        "async": lambda transform, p: transform.arun(bundle(p)),
    }
    refusals = {"image": lambda transform, p: transform.run(QueryBundle("", image_path=p.canary))}

    def adapter(self, probe):
        return DPQueryTransform(probe.session())


ASKED = {
    "query": lambda engine, p: engine.query(p.new_text()),
    "aquery": lambda engine, p: engine.aquery(p.new_text()),
    "bundle": lambda engine, p: engine.query(bundle(p)),
}


async def answered(engine, probe):
    """A streamed answer, read to its end."""
    response = await engine.aquery(probe.new_text())
    return "".join([piece async for piece in response.async_response_gen()])


STREAMED = {
    "query": lambda engine, p: engine.query(p.new_text()).response_gen,
    "aquery": answered,
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
    refusals = {"image": lambda engine, p: engine.query(QueryBundle("", image_path=p.canary))}

    def adapter(self, probe):
        inner = index_of("w1x w2x", "w3x").as_query_engine(llm=probe.llama_openai())
        return DPQueryEngine(probe.session(), inner)


def with_remote_part(engine, probe):
    """A retriever that holds a remote model is refused when an engine is made with it."""
    remote = probe.llama_openai(SimpleNamespace(url="https://models.example/v1"))
    retriever = QueryFusionRetriever([engine._retriever], llm=remote)
    return DPQueryEngine(probe.session(), engine._inner, retriever=retriever)


class Failing(BaseRetriever):
    """Fails as foreign code does."""

    location = Location()

    def _retrieve(self, query_bundle):
        raise RuntimeError(f"cannot find {query_bundle.query_str}") from KeyError(query_bundle)


async def with_failing_part(engine, probe):
    failing = DPQueryEngine(probe.session(), engine._inner, retriever=Failing())
    with pytest.raises(DPMiddlewareError, match="failed with RuntimeError"):
        failing.query(probe.new_text())
    return await failing.aquery(probe.new_text())


class TestLocalRetrieval(Contract):
    """The raw query meets a local index of raw text."""

    calls = ASKED
    refusals = {"a remote model": with_remote_part, "failing search": with_failing_part}
    hears = LLAMA
    streaming = False
    test_threads_draw_apart = None  # a node is released once, so calls charge different numbers

    def adapter(self, probe):
        with unrecorded():  # the index is made elsewhere
            index = index_of(probe.private_text, f"more of {probe.canary}")
        inner = index.as_query_engine(llm=probe.llama_openai(), streaming=self.streaming)
        return DPQueryEngine(probe.session(), inner, retriever=index.as_retriever())


class TestStreamingRetrieval(TestLocalRetrieval):
    """The inner engine's own stream, read when the query is over."""

    calls = STREAMED
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

    calls = STREAMED

    def adapter(self, probe):
        inner = index_of("w1x").as_query_engine(llm=probe.llama_openai(), streaming=True)
        session = probe.session()
        return DPQueryEngine(session, inner, extractor=probe.extractor, streaming=True)
