"""The trace-safe contract for DPLLM, and for what LlamaIndex builds on a model."""

from functools import partial

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock as Call,
)
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool
from llama_index_dp_middleware import DPLLM, unrecorded
from pydantic import BaseModel
from support.contract import ToolCall
from support.llama_index import CHAT, LLAMA, Contract, index_of


class Found(BaseModel):
    """What was found."""

    word: str


def look_up(word: str) -> str:
    """Look a word up."""
    return f"found {word}"


TOOL = FunctionTool.from_defaults(look_up)
PROMPT = PromptTemplate("Say more about {topic}.")


def messages(probe, text=None):
    """A message in each private role, and the canary in each private slot."""
    private = [TextBlock(text=probe.private_text)] * 2
    slots = {"tool_call_id": "call-1", "artifact": probe.canary}
    named = {"name": probe.canary}
    return [
        ChatMessage("be brief", role="system", additional_kwargs={"a": probe.canary}),
        ChatMessage(text or probe.new_text(), role="user", additional_kwargs=named),
        ChatMessage(blocks=private, role="tool", additional_kwargs=slots),
    ]


def of_each(names, ask, reply=None):
    """Calls of the methods with these names, which ``ask`` makes; a reply is the model's."""

    def call(name, model, probe):
        probe.remote.reply = reply or probe.remote.reply
        return ask(getattr(model, name), probe)

    return {name: partial(call, name) for name in names}


CHATS = ("chat", "achat", "stream_chat", "astream_chat")
COMPLETIONS = ("complete", "acomplete", "stream_complete", "astream_complete")
PREDICTIONS = ("predict", "apredict", "stream", "astream")


def refused(role, block=TextBlock, **fields):
    """Refuses a message with a block that holds the canary, behind others."""

    def call(model, probe):
        held = {name: value(probe.canary) for name, value in fields.items()}
        blocks = [block(**(held or {"text": probe.canary}))]
        return model.chat([*messages(probe), ChatMessage(blocks=blocks, role=role)])

    return call


def tried_twice(model, probe):
    asked = messages(probe)
    try:
        return model.chat(asked)
    except Exception:
        return model.chat(asked)


class TestDPLLM(Contract):
    hears = LLAMA
    retries = {"chat": tried_twice}
    calls = {
        **of_each(CHATS, lambda call, p: call(messages(p))),
        **of_each(COMPLETIONS, lambda call, p: call(p.private_text)),
        **of_each(
            [f"{name}_with_tools" for name in CHATS],
            lambda call, p: call([TOOL], user_msg=p.new_text(), chat_history=messages(p)),
        ),
    }
    replays = {
        "chat": lambda m, p: m.chat(messages(p, p.private_text)),
        "astream_chat": lambda m, p: m.astream_chat(messages(p, "w1x")),
    }
    refusals = {
        "image": refused("user", ImageBlock, url=lambda canary: f"https://{canary}"),
        "thought": refused("user", ThinkingBlock, content=str),
        "thought of the system": refused("system", ThinkingBlock, content=str),
        "own call": refused(
            "assistant", Call, tool_name=str, tool_kwargs=lambda canary: {"word": canary}
        ),
        **{f"own words as {role}": refused(role) for role in ("assistant", "model", "chatbot")},
        "no message": lambda m, p: m.chat([*messages(p), p.canary]),
        "no text": lambda m, p: m.complete([p.canary]),
    }

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai(), public_system=("be brief",))


@pytest.mark.slow
class TestBuiltOnDPLLM(Contract):
    """What LlamaIndex builds on a model; it puts raw arguments into its own records."""

    calls = {
        **of_each(PREDICTIONS, lambda call, p: call(PROMPT, topic=p.new_text())),
        **of_each(
            [f"{how}structured_predict" for how in ("", "a", "stream_", "astream_")],
            lambda call, p: call(Found, PROMPT, topic=p.new_text()),
            [ToolCall(name="Found", arguments={"word": "w1x"})],
        ),
        **of_each(
            ("predict_and_call", "apredict_and_call"),
            lambda call, p: call([TOOL], user_msg=p.new_text()),
            [ToolCall(name="look_up", arguments={"word": "w1x"})],
        ),
        **of_each(
            ["as_structured_llm"], lambda call, p: call(Found).chat(messages(p)), '{"word": "w1x"}'
        ),
    }

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())


def chatting(mode, path):
    """Two turns of an engine on an index of raw text: the first has no history to condense."""

    def call(model, probe):
        node = TextNode(text=f"{probe.canary} w1x w2x", metadata={"author": probe.canary})
        memory = ChatMemoryBuffer.from_defaults(llm=model)
        with unrecorded():  # it records what it retrieves and asks
            engine = index_of(node).as_chat_engine(chat_mode=mode, llm=model, memory=memory)
            return [CHAT[path](engine, probe.new_text()) for _ in range(2)]

    return call


class TestChatEngines(Contract):
    """On DPLLM with its defaults, all that they send is released."""

    calls = {
        f"{mode}, {path}": chatting(mode, path)
        for mode in ("best", "context", "condense_plus_context", "condense_question", "simple")
        for path in ("chat", "stream_chat")
    }
    # one engine is one conversation; what fails below DPLLM is tested with it
    test_threads_draw_apart = test_a_failing_remote = None
    test_an_exhausted_budget = test_a_failing_release = None

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())
