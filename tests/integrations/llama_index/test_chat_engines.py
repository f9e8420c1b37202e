"""Chat engines of an index of raw text, on DPLLM with its defaults: all that they send is released.

They record what they retrieve and ask themselves, so they run in ``with unrecorded()``.
"""

from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from llama_index_dp_middleware import DPLLM, unrecorded
from support.llama_index import CHAT, Contract, index_of

MODES = ("best", "context", "condense_plus_context", "condense_question", "simple")
TURNS = 2  # the first has no history to condense


def engine_of(mode, model, probe):
    node = TextNode(text=f"{probe.canary} w1x w2x", metadata={"author": probe.canary})
    memory = ChatMemoryBuffer.from_defaults(llm=model)
    return index_of(node).as_chat_engine(chat_mode=mode, llm=model, memory=memory)


def chatting(mode, path):
    def call(model, probe):
        with unrecorded():
            engine = engine_of(mode, model, probe)
            return [CHAT[path](engine, probe.new_text()) for _ in range(TURNS)]

    return call


class TestChatEngines(Contract):
    calls = {
        f"{mode}, {path}": chatting(mode, path)
        for mode in MODES
        for path in ("chat", "stream_chat")
    }
    # one engine is one conversation; what fails below DPLLM is tested with it
    test_threads_draw_apart = test_a_failing_remote = None
    test_an_exhausted_budget = test_a_failing_release = None

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())
