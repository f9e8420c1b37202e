"""The trace-safe contract for DPLLM, and for what LlamaIndex builds on a model."""

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


def replying(reply, call):
    """The call, to a model that answers in this way."""

    def asked(model, probe):
        probe.remote.reply = reply
        return call(model, probe)

    return asked


def structured(call):
    return replying([ToolCall(name="Found", arguments={"word": "w1x"})], call)


def looking_up(call):
    return replying([ToolCall(name="look_up", arguments={"word": "w1x"})], call)


async def streamed(found):
    return [each async for each in await found]


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
        "chat": lambda model, probe: model.chat(messages(probe)),
        "achat": lambda model, probe: model.achat(messages(probe)),
        "stream_chat": lambda model, probe: model.stream_chat(messages(probe)),
        "astream_chat": lambda model, probe: model.astream_chat(messages(probe)),
        "complete": lambda model, probe: model.complete(probe.private_text),
        "acomplete": lambda model, probe: model.acomplete(probe.private_text),
        "stream_complete": lambda model, probe: model.stream_complete(probe.private_text),
        "astream_complete": lambda model, probe: model.astream_complete(probe.private_text),
        "chat_with_tools": lambda model, probe: model.chat_with_tools(
            [TOOL], user_msg=probe.new_text(), chat_history=messages(probe)
        ),
        "achat_with_tools": lambda model, probe: model.achat_with_tools(
            [TOOL], user_msg=ChatMessage(probe.new_text())
        ),
        "stream_chat_with_tools": lambda model, probe: model.stream_chat_with_tools(
            [TOOL], chat_history=messages(probe)
        ),
        "astream_chat_with_tools": lambda model, probe: streamed(
            model.astream_chat_with_tools([TOOL], user_msg=probe.new_text())
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
        "predict": lambda model, probe: model.predict(PROMPT, topic=probe.new_text()),
        "apredict": lambda model, probe: model.apredict(PROMPT, topic=probe.new_text()),
        "stream": lambda model, probe: model.stream(PROMPT, topic=probe.new_text()),
        "astream": lambda model, probe: streamed(model.astream(PROMPT, topic=probe.new_text())),
        "structured_predict": structured(
            lambda model, probe: model.structured_predict(Found, PROMPT, topic=probe.new_text())
        ),
        "astructured_predict": structured(
            lambda model, probe: model.astructured_predict(Found, PROMPT, topic=probe.new_text())
        ),
        "stream_structured_predict": structured(
            lambda model, probe: model.stream_structured_predict(
                Found, PROMPT, topic=probe.new_text()
            )
        ),
        "astream_structured_predict": structured(
            lambda model, probe: streamed(
                model.astream_structured_predict(Found, PROMPT, topic=probe.new_text())
            )
        ),
        "predict_and_call": looking_up(
            lambda model, probe: model.predict_and_call([TOOL], user_msg=probe.new_text())
        ),
        "apredict_and_call": looking_up(
            lambda model, probe: model.apredict_and_call([TOOL], user_msg=probe.new_text())
        ),
        "as_structured_llm": replying(
            '{"word": "w1x"}',
            lambda model, probe: model.as_structured_llm(Found).chat(messages(probe)),
        ),
    }

    def adapter(self, probe):
        return DPLLM(probe.session(), probe.llama_openai())
