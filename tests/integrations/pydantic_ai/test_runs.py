"""Agents of pydantic-ai under pseudonyms: tools and users see the originals, the remote none."""

import asyncio
import json
import traceback
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from pydantic import BaseModel
from pydantic_ai import Agent, messages as parts
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters
from pydantic_ai.models.function import DeltaThinkingPart, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage
from pydantic_ai_dp_middleware import DPModel
from support.cases import over
from support.contract import ToolCall
from support.entities import CONTRACT
from support.loops import async_client
from support.pseudonymous import calling, name_in, pseudonyms

import dp_middleware as dp

WHO = "Who is Mirela Tamburi?"
SECOND = "And what of Berlin?"
PLAIN = ModelRequestParameters()


@pytest.fixture
def model(remote):
    provider = OpenAIProvider(openai_client=async_client(remote.url))
    return DPModel(
        pseudonyms(), OpenAIChatModel("gpt-4o-mini", provider=provider), tools=["look_up"]
    )


@over("streams", [False, True])
def test_tools_and_users_see_the_originals(streams, model, remote):
    found, pieces = [], []
    remote.reply = calling
    agent = Agent(model, instructions="Help Mirela Tamburi.")

    @agent.tool_plain
    def look_up(name: str) -> list[str]:
        found.append(name)
        return [name, "Acme Trading Ltd"]

    async def run():
        if not streams:
            return (await agent.run(WHO)).output
        async with agent.run_stream(WHO) as result:
            pieces.extend([text async for text in result.stream_text(delta=True, debounce_by=None)])
            return await result.get_output()

    said = '["Mirela Tamburi","Acme Trading Ltd"]'
    assert asyncio.run(run()).replace(", ", ",") == said
    assert found == ["Mirela Tamburi"]
    if streams:
        assert "".join(pieces).replace(", ", ",") == said
    first, second = remote.requests[-2:]
    assert second["messages"][: len(first["messages"])] == first["messages"]


def test_a_history_is_released_once(model, remote):
    remote.mode = "echo"
    agent = Agent(model)

    async def run():
        first = await agent.run(CONTRACT)
        return first, await agent.run(SECOND, message_history=first.all_messages())

    first, second = asyncio.run(run())
    assert (first.output, second.output) == (CONTRACT, SECOND)
    [asked] = remote.requests[0]["messages"]
    again, answer, _ = remote.requests[1]["messages"]
    assert again == asked
    assert answer["content"] == asked["content"]  # its own words, not what was shown


class Party(BaseModel):
    """Who signed."""

    name: str


def test_structured_output_has_the_originals(model, remote):
    remote.reply = lambda request: [
        ToolCall(name="final_result", arguments={"name": name_in(request["messages"][-1])})
    ]
    result = asyncio.run(Agent(model, output_type=Party).run(WHO))
    assert result.output == Party(name="Mirela Tamburi")


def requested(text):
    return [parts.ModelRequest([parts.UserPromptPart(text)])]


def streamed(inner, text, **options):
    """The events of an answer, and the answer."""

    async def run():
        model = DPModel(pseudonyms(), inner, **options)
        async with model.request_stream(requested(text), None, PLAIN) as stream:
            return [event async for event in stream], stream.get()

    return asyncio.run(run())


def in_pieces(text):
    return [text[place : place + 3] for place in range(0, len(text), 3)]


async def thinking(messages, info):
    """A thought and a text that repeat the question."""
    pieces = in_pieces(messages[0].parts[0].content)
    for piece in pieces:
        yield {0: DeltaThinkingPart(content=piece)}
    for piece in pieces:
        yield piece


def test_thoughts_and_texts_in_pieces_are_restored():
    events, response = streamed(FunctionModel(stream_function=thinking), CONTRACT)
    shown = {0: "", 1: ""}
    for event in events:
        if event.event_kind == "part_start":
            shown[event.index] += event.part.content
        elif event.event_kind == "part_delta":
            shown[event.index] += event.delta.content_delta or ""
    assert shown == {0: CONTRACT, 1: CONTRACT}
    assert [part.content for part in response.parts] == [CONTRACT, CONTRACT]
    assert isinstance(response.parts[0], parts.ThinkingPart)


class Searching(FunctionModel):
    """Its vendor calls a tool, in pieces, with what it was asked."""

    @asynccontextmanager
    async def request_stream(self, messages, model_settings, parameters, run_context=None):
        args = json.dumps({"query": messages[0].parts[0].content})
        whole = parts.NativeToolCallPart("web_search", args)
        events = [
            parts.PartStartEvent(index=0, part=parts.NativeToolCallPart("web_search", "")),
            *(
                parts.PartDeltaEvent(index=0, delta=parts.ToolCallPartDelta(args_delta=piece))
                for piece in in_pieces(args)
            ),
            parts.PartEndEvent(index=0, part=whole),
        ]
        yield CompletedStreamedResponse(
            parts.ModelResponse([whole]), model_request_parameters=parameters, replay_events=events
        )


@over("question", [CONTRACT, "Who is Mirela Tamburi"])
def test_arguments_of_a_vendors_tool_in_pieces_are_restored(question):
    inner = Searching(stream_function=thinking)
    events, response = streamed(inner, question, tools=["web_search"])
    deltas = [e.delta.args_delta for e in events if e.event_kind == "part_delta"]
    assert json.loads("".join(deltas)) == {"query": question}
    [ended] = [e.part for e in events if e.event_kind == "part_end"]
    assert ended == response.parts[0]
    assert json.loads(ended.args) == {"query": question}


class Counting(FunctionModel):
    """Counts the letters of the first prompt, on a server."""

    async def count_tokens(self, messages, model_settings, model_request_parameters):
        self.given = messages[0].parts[0].content
        return RequestUsage(input_tokens=len(self.given))


def test_tokens_are_counted_of_what_was_released():
    inner = Counting(lambda messages, info: None)
    counted = DPModel(pseudonyms(), inner).count_tokens(requested(CONTRACT), None, PLAIN)
    assert asyncio.run(counted).input_tokens == len(inner.given)
    assert "Mirela" not in inner.given


def test_what_is_no_model_is_refused(model):
    for inner in (model, "gpt-4o"):
        with pytest.raises(dp.errors.ParameterError, match="a model"):
            DPModel(pseudonyms(), inner)
    assert repr(model) == "DPModel('gpt-4o-mini')"


@over("kind", [ValueError, ModelRetry])
def test_a_hook_withholds_what_a_tool_raises(kind, model, remote):
    """As docs/tools.md says: the model cannot, as the framework calls the tool."""
    hooks = Hooks()

    @hooks.on.tool_execute_error
    async def withhold(ctx, *, call, tool_def, args, error):
        raise RuntimeError(f"{call.tool_name} failed with {type(error).__name__}") from None

    agent = Agent(model, capabilities=[hooks])

    @agent.tool_plain
    def look_up(name: str) -> str:
        """Look up."""
        raise kind(f"no record of {name}")

    remote.reply = lambda request: [
        ToolCall(name="look_up", arguments={"name": name_in(request["messages"][0])})
    ]
    with pytest.raises(RuntimeError, match="look_up failed with") as caught:
        asyncio.run(agent.run(WHO))
    assert "Mirela Tamburi" not in "".join(traceback.format_exception(caught.value))
