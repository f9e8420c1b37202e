"""What stands above a component records raw text itself, but not in ``with unrecorded()``."""

import logging

import pytest
from llama_index.core import PromptTemplate, Settings
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.instrumentation import root_dispatcher
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
from support.cases import over
from support.contract import ToolCall, result_of
from support.contract._llama_index import _Callbacks, _Events
from support.contract._sources import Notes
from support.llama_index import Contract, index_of, simple_chat, user

import dp_middleware as dp
from dp_middleware.models.chat import local_model


def quietly(call):
    def run(adapter, probe):
        with unrecorded():
            return call(adapter, probe)

    return run


async def asked(agent, probe):
    memory = ChatMemoryBuffer.from_defaults()
    return await agent.run(user_msg=probe.new_text(), memory=memory)


async def run(agent, probe):
    probe.remote.script.append([ToolCall(name="look_up", arguments={"word": "w1x"})])
    with unrecorded():
        return str(await asked(agent, probe))


async def streamed(agent, probe):
    with unrecorded():
        handler = agent.run(user_msg=probe.new_text(), memory=ChatMemoryBuffer.from_defaults())
        return [each async for each in handler.stream_events()] and str(await handler)


@pytest.mark.slow
class TestAgent(Contract):
    calls = {"run": run, "stream_events": streamed}
    quiet = unrecorded
    begun = {"run": asked}

    def adapter(self, probe):
        def look_up(word: str) -> str:
            """Look a word up."""
            return f"{word} of {probe.canary}"

        return FunctionAgent(tools=[look_up], llm=DPLLM(probe.session(), probe.llama_openai()))

    def exposed(self, adapter, probe):
        return [adapter.llm]


class TestPipeline(Contract):
    begun = {
        "run": lambda steps, probe: steps.run(documents=[Document(text=probe.new_text())]),
        "arun": lambda steps, probe: steps.arun(documents=[Document(text=probe.new_text())]),
    }
    calls = {"run": quietly(begun["run"])}
    quiet = unrecorded
    output = "released"

    def adapter(self, probe):
        return IngestionPipeline(transformations=[DPTransform(probe.session()), MockEmbedding(4)])

    def exposed(self, adapter, probe):
        return adapter.transformations


class TestEngineOverRawIndex(Contract):
    begun = {
        "query": lambda engine, probe: engine.query(probe.new_text()),
        "aquery": lambda engine, probe: engine.aquery(probe.new_text()),
    }
    calls = {"query": quietly(begun["query"])}
    quiet = unrecorded
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


async def aqueried(model, probe):
    return [x async for x in (await engine_of(probe).aquery(probe.new_text())).async_response_gen()]


STREAMS = [
    lambda m, p: list(engine_of(p).query(p.new_text()).response_gen),
    lambda m, p: list(simple_chat(m).stream_chat(p.new_text()).response_gen),
    lambda m, p: m.stream_chat([user(p.new_text())]),
    lambda m, p: m.stream(PromptTemplate("{x}"), x=p.new_text()),
    lambda m, p: m.astream_chat([user(p.new_text())]),
    aqueried,
]


def test_a_stream_of_a_local_model_in_the_block(probe):
    model = probe.llama_openai(probe.local)
    for call in STREAMS:
        with unrecorded():
            assert result_of(call, model, probe)
        assert not probe.leaks()
    result_of(STREAMS[2], model, probe)
    assert probe.leaks(), "the recorders are deaf"


@over("kind", [_Callbacks, _Events])
def test_a_recorder_is_refused_until_it_is_discreet(kind):
    notes = Notes()
    handlers = {each: [kind(notes=notes)] if each is kind else [] for each in (_Callbacks, _Events)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(root_dispatcher, "span_handlers", [*root_dispatcher.span_handlers])
        patch.setattr(root_dispatcher, "event_handlers", handlers[_Events])
        patch.setattr(Settings, "_callback_manager", CallbackManager(handlers[_Callbacks]))
        told = f"{kind.__name__}.*quiet_recorders"
        with pytest.raises(dp.ParameterError, match=told), unrecorded():
            pass
        if kind is _Events:  # which is told of every model
            with pytest.raises(dp.ParameterError, match=told):
                local_model(MockLLM())
        quiet_recorders()
        index, before = index_of("w1x"), notes.text()
        with unrecorded():
            index.as_retriever().retrieve("w1x")
        assert notes.text() == before
        index.as_retriever().retrieve("w1x")
        assert notes.text() != before
