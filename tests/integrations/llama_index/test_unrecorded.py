"""What stands above a component records raw text itself, but not in ``with unrecorded()``."""

import asyncio
import logging

import pytest
from llama_index.core import PromptTemplate, Settings, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.instrumentation import root_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import TransformQueryEngine
from llama_index.core.schema import Document
from llama_index_dp_middleware import (
    DPLLM,
    DPNodePostprocessor,
    DPQueryTransform,
    DPTransform,
    quiet_recorders,
    unrecorded,
)
from support.contract import ToolCall
from support.llama_index import Contract, index_of, simple_chat, user

import dp_middleware as dp
from dp_middleware.models.chat import local_model


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
    return await agent.run(user_msg=probe.new_text(), memory=ChatMemoryBuffer.from_defaults())


@pytest.mark.slow
class TestAgent(Contract):
    calls = {"run": asked, "stream_events": streamed}
    quiet = unrecorded
    begun = {"run": begun}

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


class TestPipeline(Contract):
    calls = {"run": ingested}
    quiet = unrecorded
    begun = {
        "run": lambda steps, probe: steps.run(documents=[Document(text=probe.new_text())]),
        "arun": lambda steps, probe: steps.arun(documents=[Document(text=probe.new_text())]),
    }
    output = "released"

    def adapter(self, probe):
        return IngestionPipeline(transformations=[DPTransform(probe.session()), MockEmbedding(4)])

    def exposed(self, adapter, probe):
        return adapter.transformations


def queried(engine, probe):
    with unrecorded():
        return engine.query(probe.new_text())


class TestEngineOverRawIndex(Contract):
    calls = {"query": queried}
    quiet = unrecorded
    begun = {
        "query": lambda engine, probe: engine.query(probe.new_text()),
        "aquery": lambda engine, probe: engine.aquery(probe.new_text()),
    }
    test_threads_draw_apart = None  # a node is released once, so calls charge different numbers

    def adapter(self, probe):
        session = probe.session()
        with unrecorded():
            index = index_of(probe.private_text)
        inner = index.as_query_engine(
            llm=probe.llama_openai(), node_postprocessors=[DPNodePostprocessor(session)]
        )
        return TransformQueryEngine(inner, DPQueryTransform(session))


@pytest.fixture(autouse=True)
def silent_store(monkeypatch):
    """aiosqlite logs, at DEBUG, in a thread of its own: no context reaches it."""
    monkeypatch.setattr(logging.getLogger("aiosqlite"), "disabled", True)


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
def test_a_stream_in_the_block(begin, probe):
    with unrecorded():
        assert read(begin(probe))
    assert not probe.leaks()
    read(begin(probe))
    assert probe.leaks(), "the recorders are deaf"


@pytest.mark.parametrize("begin", ASTREAMS.values(), ids=ASTREAMS)
def test_a_coroutine_in_the_block(begin, probe):
    async def main():
        with unrecorded():
            return await aread(await begin(probe))

    assert asyncio.run(main())
    assert not probe.leaks()


class Handler(BaseCallbackHandler):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__([], [])
        self.told = []

    def on_event_start(self, event_type, payload=None, event_id="", parent_id="", **kwargs):
        self.told.append(payload)
        return event_id

    def on_event_end(self, event_type, payload=None, event_id="", **kwargs):
        self.told.append(payload)

    def start_trace(self, trace_id=None):
        pass

    def end_trace(self, trace_id=None, trace_map=None):
        pass


class Events(BaseEventHandler):
    told: list = []

    def handle(self, event, **kwargs):
        self.told.append(event)


def callbacks(monkeypatch):
    handler = Handler()
    monkeypatch.setattr(Settings, "_callback_manager", CallbackManager([handler]))
    return handler


def events(monkeypatch):
    handler = Events()
    monkeypatch.setattr(root_dispatcher, "event_handlers", [handler])
    return handler


@pytest.mark.parametrize("record", [callbacks, events])
def test_a_recorder_is_refused_until_it_is_discreet(record, monkeypatch):
    monkeypatch.setattr(root_dispatcher, "span_handlers", [*root_dispatcher.span_handlers])
    handler = record(monkeypatch)
    told = f"{type(handler).__name__}.*quiet_recorders"
    with pytest.raises(dp.ParameterError, match=told), unrecorded():
        pass
    quiet_recorders()
    nodes = [Document(text="w1x")]
    index = VectorStoreIndex.from_documents(nodes, embed_model=MockEmbedding(4))
    handler.told.clear()
    with unrecorded():
        index.as_retriever().retrieve("w1x")
    assert not handler.told
    index.as_retriever().retrieve("w1x")
    assert handler.told


def test_a_local_model_is_refused_where_recorders_would_be_told(monkeypatch):
    events(monkeypatch)
    with pytest.raises(dp.ParameterError, match=r"Events.*quiet_recorders"):
        local_model(MockLLM())
