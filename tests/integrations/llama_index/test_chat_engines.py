"""Chat engines of an index of raw text, on DPLLM with its defaults: all that they send is released.

They record what they retrieve and ask themselves, so they run in ``with unrecorded()``.
"""

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from llama_index_dp_middleware import DPLLM, unrecorded

from dp_middleware.testing import TraceSafeContract

MODES = ("best", "context", "condense_plus_context", "condense_question", "simple")
TURNS = 2  # the first has no history to condense


def engine_of(mode, model, probe):
    node = TextNode(text=f"{probe.canary} w1x w2x", metadata={"author": probe.canary})
    index = VectorStoreIndex([node], embed_model=MockEmbedding(4))
    memory = ChatMemoryBuffer.from_defaults(llm=model)
    return index.as_chat_engine(chat_mode=mode, llm=model, memory=memory)


def chatting(mode):
    def call(model, probe):
        with unrecorded():
            engine = engine_of(mode, model, probe)
            return [str(engine.chat(probe.new_text())) for _ in range(TURNS)]

    return call


def streaming(mode):
    def call(model, probe):
        with unrecorded():
            engine = engine_of(mode, model, probe)
            return [
                "".join(engine.stream_chat(probe.new_text()).response_gen) for _ in range(TURNS)
            ]

    return call


def read_outside(mode):
    """The block ends before the stream does."""

    def call(model, probe):
        said = []
        with unrecorded():
            engine = engine_of(mode, model, probe)
        for _ in range(TURNS):
            with unrecorded():
                stream = engine.stream_chat(probe.new_text())
            said.append("".join(stream.response_gen))
        return said

    return call


def query_read_outside(model, probe):
    with unrecorded():
        index = VectorStoreIndex([TextNode(text=probe.new_text())], embed_model=MockEmbedding(4))
        response = index.as_query_engine(llm=model, streaming=True).query(probe.new_text())
    return "".join(response.response_gen)


async def aquery_read_outside(model, probe):
    with unrecorded():
        index = VectorStoreIndex([TextNode(text=probe.new_text())], embed_model=MockEmbedding(4))
        response = await index.as_query_engine(llm=model, streaming=True).aquery(probe.new_text())
    return "".join([piece async for piece in response.async_response_gen()])


class TestChatEngines(TraceSafeContract):
    requires = frozenset({"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"})
    calls = {f"{mode}, whole": chatting(mode) for mode in MODES} | {
        f"{mode}, streamed": streaming(mode) for mode in MODES
    }
    calls |= {f"{mode}, read outside": read_outside(mode) for mode in MODES}
    calls |= {
        "query, read outside": query_read_outside,
        "aquery, read outside": aquery_read_outside,
    }
    # one engine is one conversation; what fails below DPLLM is tested with it
    test_threads_draw_apart = test_a_failing_remote = None
    test_an_exhausted_budget = test_a_failing_release = None

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())
