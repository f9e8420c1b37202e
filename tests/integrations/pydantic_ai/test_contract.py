"""The trace-safe contract for models of pydantic-ai."""

from pydantic_ai import Agent, ImageUrl, ModelRetry
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_dp_middleware import DPModel
from support.contract import ToolCall, TraceSafeContract
from support.loops import async_client

BRIEF = "be brief"
PLAIN = ModelRequestParameters()


def remote_model(probe):
    provider = OpenAIProvider(openai_client=async_client(probe.remote.url))
    return OpenAIChatModel("gpt-4o-mini", provider=provider)


def helper(model, probe, instructions=BRIEF):
    """An agent whose tool's output is private too; the model calls it twice, wrongly first."""
    agent = Agent(model, instructions=instructions, retries=2)

    @agent.tool_plain
    def look_up(word: str) -> dict[str, str]:
        """Look a word up."""
        if word != "w1x":
            raise ModelRetry(f"no {word} {probe.private_text}")
        return {word: probe.private_text}

    def reply(request):
        given = [each["role"] for each in request["messages"]].count("tool")
        words = ("w2x", "w1x")
        if given >= len(words):
            return "a fine answer"
        return [ToolCall(name="look_up", arguments={"word": words[given]}, id=f"c{given}")]

    probe.remote.reply = reply
    return agent


async def run(model, probe, **options):
    result = await helper(model, probe, **options).run(probe.new_text())
    return result.output


async def run_stream(model, probe):
    async with helper(model, probe).run_stream(probe.new_text()) as result:
        return [text async for text in result.stream_text()]


def history(probe, text, *parts):
    """A part in each private slot."""
    given = [
        UserPromptPart(text),
        SystemPromptPart(f"{probe.private_text} {text}"),
        UserPromptPart([probe.private_text, TextContent("w1x", metadata=probe.canary)]),
        RetryPromptPart(probe.private_text),
        *parts,
    ]
    return [ModelRequest(given, instructions=BRIEF, metadata={"a": probe.canary})]


async def request(model, messages):
    return (await model.request(messages, None, PLAIN)).parts


async def request_stream(model, messages):
    async with model.request_stream(messages, None, PLAIN) as stream:
        return [event async for event in stream], stream.get().parts


async def left(model, probe):
    async with model.request_stream(history(probe, probe.new_text()), None, PLAIN) as stream:
        return await anext(aiter(stream))


async def tried_twice(model, probe):
    messages = history(probe, probe.new_text())
    try:
        return await request(model, messages)
    except Exception:
        return await request(model, messages)


def refused(*parts):
    return lambda model, probe: request(
        model, history(probe, probe.new_text(), *(part(probe) for part in parts))
    )


def refused_answer(part):
    return lambda model, probe: request(
        model, [*history(probe, probe.new_text()), ModelResponse([part(probe)])]
    )


class TestDPModel(TraceSafeContract):
    retries = {"request": tried_twice}
    calls = {
        "request": lambda model, probe: request(model, history(probe, probe.new_text())),
        "request_stream": lambda model, probe: request_stream(
            model, history(probe, probe.new_text())
        ),
        "left": left,
    }
    replays = {
        "request": lambda model, probe: request(model, history(probe, "w1x")),
        "request_stream": lambda model, probe: request_stream(model, history(probe, "w1x")),
    }
    refusals = {
        "image": refused(lambda p: UserPromptPart([ImageUrl(f"https://{p.canary}")])),
        "image of a tool": refused(
            lambda p: ToolReturnPart("look_up", ImageUrl(f"https://{p.canary}"), tool_call_id="c")
        ),
        "output of no call": refused(
            lambda p: ToolReturnPart("look_up", p.canary, tool_call_id=p.canary)
        ),
        "another part": refused(lambda p: p.canary),
        "own words": refused_answer(lambda p: TextPart(p.canary)),
        "own call": refused_answer(lambda p: ToolCallPart("look_up", {"word": p.canary})),
        "another answer": refused_answer(lambda p: p.canary),
        "no message": lambda model, probe: request(model, [probe.canary]),
        "compacted": lambda model, probe: model.compact_messages(probe.canary),
    }

    def adapter(self, probe):
        return DPModel(probe.session(), remote_model(probe), public_instructions=[BRIEF])


class TestAgents(TraceSafeContract):
    """Agents, whose tools give private text too."""

    calls = {
        "run": run,
        "run_stream": run_stream,
        "private instructions": lambda model, probe: run(
            model, probe, instructions=probe.private_text
        ),
        "instructions that are made": lambda model, probe: run(
            model, probe, instructions=lambda: probe.new_text()
        ),
    }

    def adapter(self, probe):
        return DPModel(probe.session(), remote_model(probe), public_instructions=[BRIEF])
