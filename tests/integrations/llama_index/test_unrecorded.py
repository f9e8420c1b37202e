"""What stands above a component records raw text itself, but not in ``with unrecorded()``."""
# ruff: noqa: RUF012 - the tables of a contract are class attributes

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import PromptTemplate
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
from support.llama_index import index_of, simple_chat, user

from dp_middleware.testing import Probe, ToolCall, TraceSafeContract

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


async def begun(agent, probe):
    return agent.run(user_msg=probe.new_text(), memory=ChatMemoryBuffer.from_defaults())


@pytest.mark.slow
class TestAgent(TraceSafeContract):
    calls = {"run": asked, "stream_events": streamed}
    quiet = unrecorded
    begun = {"run": begun}
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
    quiet = unrecorded
    begun = {
        "run": lambda steps, probe: steps.run(documents=[Document(text=probe.new_text())]),
        "arun": lambda steps, probe: steps.arun(documents=[Document(text=probe.new_text())]),
    }
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
    quiet = unrecorded
    begun = {
        "query": lambda engine, probe: engine.query(probe.new_text()),
        "aquery": lambda engine, probe: engine.aquery(probe.new_text()),
    }
    requires = LLAMA
    test_threads_draw_apart = None  # a node is released once, so calls charge different numbers

    def adapter(self, probe):
        session = probe.session()
        with unrecorded():
            index = index_of(probe.private_text)
        inner = index.as_query_engine(
            llm=probe.llama_openai(), node_postprocessors=[DPNodePostprocessor(session)]
        )
        return TransformQueryEngine(inner, DPQueryTransform(session))


# begun inside, read after it ---------------------------------------------------------------------


def engine_of(probe):
    with unrecorded():
        index = index_of(probe.private_text)
    return index.as_query_engine(llm=probe.llama_openai(probe.local), streaming=True)


def chat_of(probe):
    return simple_chat(probe.llama_openai(probe.local))


def read(response):
    return list(getattr(response, "response_gen", response))


async def aread(response):
    pieces = response.async_response_gen() if hasattr(response, "response_txt") else response
    return [piece async for piece in pieces]


STREAMS = {
    "query": lambda p: engine_of(p).query(p.new_text()),
    "chat": lambda p: chat_of(p).stream_chat(p.new_text()),
    "stream_chat": lambda p: p.llama_openai(p.local).stream_chat([user(p.new_text())]),
    "stream": lambda p: p.llama_openai(p.local).stream(PromptTemplate("{x}"), x=p.new_text()),
}
ASTREAMS = {
    "query": lambda p: engine_of(p).aquery(p.new_text()),
    "stream_chat": lambda p: p.llama_openai(p.local).astream_chat([user(p.new_text())]),
}


@pytest.mark.parametrize("begin", STREAMS.values(), ids=STREAMS)
def test_a_stream_read_after_the_block(begin, probe):
    with unrecorded():
        pieces = begin(probe)
    with ThreadPoolExecutor(1) as pool:  # and elsewhere
        assert pool.submit(read, pieces).result()
    assert not probe.leaks()
    read(begin(probe))
    assert probe.leaks(), "the recorders are deaf"


@pytest.mark.parametrize("begin", ASTREAMS.values(), ids=ASTREAMS)
def test_a_coroutine_awaited_after_the_block(begin, probe):
    """And its stream, which another task reads."""

    async def main():
        outside = contextvars.copy_context()
        with unrecorded():
            pending = begin(probe)
        pieces = await pending
        return await asyncio.create_task(aread(pieces), context=outside)

    assert asyncio.run(main())
    assert not probe.leaks()


def test_without_it_they_are_recorded(tmp_path):
    """Or else the tests above would show nothing."""
    with Probe(tmp_path) as probe:
        pipeline = TestPipeline().adapter(probe)
        pipeline.run(documents=[Document(text=probe.new_text())])
        assert [each.split(":")[0] for each in probe.leaks()] == ["LlamaIndex spans"]
