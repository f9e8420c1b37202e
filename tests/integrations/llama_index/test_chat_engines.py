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


class TestChatEngines(TraceSafeContract):
    requires = frozenset({"LlamaIndex spans", "LlamaIndex events", "LlamaIndex callbacks"})
    calls = {f"{mode}, whole": chatting(mode) for mode in MODES} | {
        f"{mode}, streamed": streaming(mode) for mode in MODES
    }
    # one engine is one conversation; what fails below DPLLM is tested with it
    test_threads_draw_apart = test_a_failing_remote = None
    test_an_exhausted_budget = test_a_failing_release = None

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())
