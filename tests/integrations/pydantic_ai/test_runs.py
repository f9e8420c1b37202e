"""Agents of pydantic-ai under pseudonyms: tools and users see the originals, the remote none."""

import asyncio
import json
import traceback
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

import openai
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters
from pydantic_ai.models.function import DeltaThinkingPart, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage
from pydantic_ai_dp_middleware import DPModel
from support.contract import ToolCall
from support.entities import CONTRACT
from support.pseudonymous import calling, name_in, pseudonyms

import dp_middleware as dp

SECOND = "And what of Berlin?"
PLAIN = ModelRequestParameters()


@pytest.fixture
def model(remote):
    client = openai.AsyncOpenAI(api_key="none", base_url=remote.url, max_retries=0)
    inner = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client))
    return DPModel(pseudonyms(), inner, tools=["look_up"])


def helper(model, found):
    agent = Agent(model, instructions="Help Mirela Tamburi.")

    @agent.tool_plain
    def look_up(name: str) -> list[str]:
        found.append(name)
        return [name, "Acme Trading Ltd"]

    return agent


@pytest.mark.parametrize("streams", [False, True])
def test_tools_and_users_see_the_originals(streams, model, remote):
    found, pieces = [], []
    remote.reply = calling
    agent = helper(model, found)

    async def run():
        if not streams:
            return (await agent.run("Who is Mirela Tamburi?")).output
        async with agent.run_stream("Who is Mirela Tamburi?") as result:
            pieces.extend([text async for text in result.stream_text(delta=True, debounce_by=None)])
            return await result.get_output()

    said = '["Mirela Tamburi","Acme Trading Ltd"]'
    assert asyncio.run(run()).replace(", ", ",") == said
    assert found == ["Mirela Tamburi"]
    if streams:
        assert "".join(pieces).replace(", ", ",") == said
    first, second = remote.requests
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
    def reply(request):
        name = name_in(request["messages"][-1]["content"])
        return [ToolCall(name="final_result", arguments={"name": name})]

    remote.reply = reply
    agent = Agent(model, output_type=Party)
    result = asyncio.run(agent.run("Who is Mirela Tamburi?"))
    assert result.output == Party(name="Mirela Tamburi")


async def thinking(messages, info):
    """A thought and a text that repeat the question, in pieces."""
    text = messages[0].parts[0].content
    for place in range(0, len(text), 3):
        yield {0: DeltaThinkingPart(content=text[place : place + 3])}
    for place in range(0, len(text), 3):
        yield text[place : place + 3]


async def streamed(model, text):
    """The events of an answer, and the answer."""
    asked = [ModelRequest([UserPromptPart(text)])]
    async with model.request_stream(asked, None, PLAIN) as stream:
        return [event async for event in stream], stream.get()


def test_thoughts_and_texts_in_pieces_are_restored():
    model = DPModel(pseudonyms(), FunctionModel(stream_function=thinking))
    events, response = asyncio.run(streamed(model, CONTRACT))
    shown = {0: "", 1: ""}
    for event in events:
        piece = getattr(event, "delta", None) or getattr(event, "part", None)
        if event.event_kind in ("part_start", "part_delta"):
            shown[event.index] += getattr(piece, "content_delta", None) or getattr(
                piece, "content", ""
            )
    assert shown == {0: CONTRACT, 1: CONTRACT}
    assert [part.content for part in response.parts] == [CONTRACT, CONTRACT]
    assert isinstance(response.parts[0], ThinkingPart)


class Searching(FunctionModel):
    """Its vendor calls a tool, in pieces, with what it was asked."""

    @asynccontextmanager
    async def request_stream(self, messages, model_settings, parameters, run_context=None):
        args = json.dumps({"query": messages[0].parts[0].content})
        events = [PartStartEvent(index=0, part=NativeToolCallPart("web_search", ""))]
        for place in range(0, len(args), 3):
            piece = ToolCallPartDelta(args_delta=args[place : place + 3])
            events.append(PartDeltaEvent(index=0, delta=piece))
        whole = NativeToolCallPart("web_search", args)
        events.append(PartEndEvent(index=0, part=whole))
        yield CompletedStreamedResponse(
            ModelResponse([whole]), model_request_parameters=parameters, replay_events=events
        )


@pytest.mark.parametrize("question", [CONTRACT, "Who is Mirela Tamburi"])
def test_arguments_of_a_vendors_tool_in_pieces_are_restored(question):
    model = DPModel(pseudonyms(), Searching(stream_function=thinking), tools=["web_search"])

    events, response = asyncio.run(streamed(model, question))
    deltas = [event.delta.args_delta for event in events if isinstance(event, PartDeltaEvent)]
    assert json.loads("".join(deltas)) == {"query": question}
    [ended] = [event.part for event in events if isinstance(event, PartEndEvent)]
    assert ended == response.parts[0]
    assert json.loads(ended.args) == {"query": question}


class Counting(FunctionModel):
    """Counts the letters of the first prompt, on a server."""

    async def count_tokens(self, messages, model_settings, model_request_parameters):
        self.given = messages[0].parts[0].content
        return RequestUsage(input_tokens=len(self.given))


def test_tokens_are_counted_of_what_was_released():
    inner = Counting(lambda messages, info: ModelResponse([TextPart("fine")]))
    model = DPModel(pseudonyms(), inner)
    asked = [ModelRequest([UserPromptPart(CONTRACT)])]
    usage = asyncio.run(model.count_tokens(asked, None, PLAIN))
    assert usage.input_tokens == len(inner.given)
    assert "Mirela" not in inner.given


def test_what_is_no_model_is_refused(model):
    for inner in (model, "gpt-4o"):
        with pytest.raises(dp.errors.ParameterError, match="a model"):
            DPModel(pseudonyms(), inner)
    assert repr(model) == "DPModel('gpt-4o-mini')"


@pytest.mark.parametrize("kind", [ValueError, ModelRetry])
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

    asked = {}

    def reply(request):
        asked.setdefault("name", name_in(request["messages"][0]["content"]))
        return [ToolCall(name="look_up", arguments={"name": asked["name"]})]

    remote.reply = reply
    with pytest.raises(RuntimeError, match="look_up failed with") as caught:
        asyncio.run(agent.run("Who is Mirela Tamburi?"))
    shown = "".join(traceback.format_exception(caught.value))
    assert "Mirela Tamburi" not in shown.replace('"Who is Mirela Tamburi?"', "")
