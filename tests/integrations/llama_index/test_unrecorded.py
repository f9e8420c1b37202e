"""What stands above a component records raw text itself, but not in ``with unrecorded()``."""
# ruff: noqa: RUF012 - the tables of a contract are class attributes

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.schema import Document
from llama_index_dp_middleware import (
    DPLLM,
    DPNodePostprocessor,
    DPQueryTransform,
    DPTransform,
    unrecorded,
)

from dp_middleware.testing import ToolCall, TraceSafeContract

LLAMA = frozenset({"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"})


async def asked(agent, probe):
    probe.remote.script.append([ToolCall(name="look_up", arguments={"word": "w1x"})])
    with unrecorded():
        found = await agent.run(user_msg=probe.new_text(), memory=ChatMemoryBuffer.from_defaults())
    return str(found)


async def streamed(agent, probe):
    with unrecorded():
        handler = agent.run(user_msg=probe.new_text(), memory=ChatMemoryBuffer.from_defaults())
    return [each async for each in handler.stream_events()] and str(await handler)


class TestAgent(TraceSafeContract):
    calls = {"run": asked, "stream_events": streamed}
    requires = LLAMA

    def adapter(self, probe):
        def look_up(word: str) -> str:
            """Look a word up."""
            return f"{word} of {probe.canary}"

        return FunctionAgent(tools=[look_up], llm=DPLLM(probe.session(), probe.llama_openai()))

    def exposed(self, adapter, probe):
        return [adapter.llm]


def ingested(pipeline, probe):
    with unrecorded():
        return pipeline.run(documents=[Document(text=probe.new_text())])


class TestPipeline(TraceSafeContract):
    calls = {"run": ingested}
    output = "released"
    requires = LLAMA

    def adapter(self, probe):
        return IngestionPipeline(transformations=[DPTransform(probe.session()), MockEmbedding(4)])

    def exposed(self, adapter, probe):
        return adapter.transformations


def queried(engine, probe):
    with unrecorded():
        return engine.query(probe.new_text())


class TestEngineOverRawIndex(TraceSafeContract):
    calls = {"query": queried}
    requires = LLAMA
    test_threads_draw_apart = None  # a node is released once, so calls charge different numbers

    def adapter(self, probe):
        session = probe.session()
        with unrecorded():
            index = VectorStoreIndex.from_documents(
                [Document(text=probe.private_text)], embed_model=MockEmbedding(4)
            )
        inner = index.as_query_engine(
            llm=probe.llama_openai(), node_postprocessors=[DPNodePostprocessor(session)]
        )
        return TransformQueryEngine(inner, DPQueryTransform(session))


def test_without_it_they_are_recorded(tmp_path):
    """Or else the tests above would show nothing."""
    from dp_middleware.testing import Probe

    with Probe(tmp_path) as probe:
        pipeline = TestPipeline().adapter(probe)
        pipeline.run(documents=[Document(text=probe.new_text())])
        assert [each.split(":")[0] for each in probe.leaks()] == ["LlamaIndex spans"]
