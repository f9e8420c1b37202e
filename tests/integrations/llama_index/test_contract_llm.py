"""The trace-safe contract for DPLLM, and for what LlamaIndex builds on a model."""

from functools import partial

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index_dp_middleware import DPLLM
from pydantic import BaseModel
from support.contract import ToolCall
from support.llama_index import LLAMA, Contract


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
    return [
        ChatMessage("be brief", role="system", additional_kwargs={"a": probe.canary}),
        ChatMessage(
            text or probe.new_text(), role="user", additional_kwargs={"name": probe.canary}
        ),
        ChatMessage(
            blocks=[TextBlock(text=probe.private_text), TextBlock(text=probe.private_text)],
            role="tool",
            additional_kwargs={"tool_call_id": "call-1", "artifact": probe.canary},
        ),
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


def refused(message):
    return lambda model, probe: model.chat([*messages(probe), message(probe)])


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
        **of_each(CHATS, lambda call, probe: call(messages(probe))),
        **of_each(COMPLETIONS, lambda call, probe: call(probe.private_text)),
        **of_each(
            ("chat_with_tools", "astream_chat_with_tools"),
            lambda call, probe: call([TOOL], user_msg=probe.new_text()),
        ),
        **of_each(
            ("achat_with_tools", "stream_chat_with_tools"),
            lambda call, probe: call(
                [TOOL], user_msg=ChatMessage(probe.new_text()), chat_history=messages(probe)
            ),
        ),
    }
    replays = {
        "chat": lambda model, probe: model.chat(messages(probe, probe.private_text)),
        "astream_chat": lambda model, probe: model.astream_chat(messages(probe, "w1x")),
    }
    refusals = {
        "image": refused(lambda p: ChatMessage(blocks=[ImageBlock(url=f"https://{p.canary}")])),
        "own words": refused(lambda p: ChatMessage(p.canary, role="assistant")),
        "own call": refused(
            lambda p: ChatMessage(
                blocks=[ToolCallBlock(tool_name="look_up", tool_kwargs={"word": p.canary})],
                role=MessageRole.ASSISTANT,
            )
        ),
        "no message": refused(lambda p: p.canary),
        "no text": lambda model, probe: model.complete([probe.canary]),
    }

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai(), public_system=("be brief",))


@pytest.mark.slow
class TestBuiltOnDPLLM(Contract):
    """What LlamaIndex builds on a model; it puts raw arguments into its own records."""

    calls = {
        **of_each(PREDICTIONS, lambda call, probe: call(PROMPT, topic=probe.new_text())),
        **of_each(
            [f"{how}structured_predict" for how in ("", "a", "stream_", "astream_")],
            lambda call, probe: call(Found, PROMPT, topic=probe.new_text()),
            [ToolCall(name="Found", arguments={"word": "w1x"})],
        ),
        **of_each(
            ("predict_and_call", "apredict_and_call"),
            lambda call, probe: call([TOOL], user_msg=probe.new_text()),
            [ToolCall(name="look_up", arguments={"word": "w1x"})],
        ),
        **of_each(
            ["as_structured_llm"],
            lambda call, probe: call(Found).chat(messages(probe)),
            '{"word": "w1x"}',
        ),
    }

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())
