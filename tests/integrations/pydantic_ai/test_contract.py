"""The trace-safe contract for models of pydantic-ai."""

from pydantic_ai import Agent, ImageUrl, ModelRetry, messages as parts
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_dp_middleware import DPModel
from support.contract import ToolCall, TraceSafeContract
from support.loops import async_client

BRIEF = "be brief"
PLAIN = ModelRequestParameters()


class Contract(TraceSafeContract):
    def adapter(self, probe):
        provider = OpenAIProvider(openai_client=async_client(probe.remote.url))
        inner = OpenAIChatModel("gpt-4o-mini", provider=provider)
        return DPModel(probe.session(), inner, public_instructions=[BRIEF])


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


class TestAgents(Contract):
    """Agents, whose tools give private text too."""

    calls = {
        "run": run,
        "run_stream": run_stream,
        "private instructions": lambda m, p: run(m, p, instructions=p.private_text),
        "instructions that are made": lambda m, p: run(m, p, instructions=lambda: p.new_text()),
    }


def history(probe, text, *more):
    """A part in each private slot."""
    given = [
        parts.UserPromptPart(text),
        parts.SystemPromptPart(f"{probe.private_text} {text}"),
        parts.UserPromptPart([probe.private_text, parts.TextContent("w1x", metadata=probe.canary)]),
        parts.RetryPromptPart(probe.private_text),
        *more,
    ]
    return [parts.ModelRequest(given, instructions=BRIEF, metadata={"a": probe.canary})]


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


def refused(part):
    return lambda m, p: request(m, history(p, p.new_text(), part(p)))


def refused_answer(part):
    return lambda m, p: request(m, [*history(p, p.new_text()), parts.ModelResponse([part(p)])])


class TestDPModel(Contract):
    retries = {"request": tried_twice}
    calls = {
        "request": lambda m, p: request(m, history(p, p.new_text())),
        "request_stream": lambda m, p: request_stream(m, history(p, p.new_text())),
        "left": left,
    }
    replays = {
        "request": lambda m, p: request(m, history(p, "w1x")),
        "request_stream": lambda m, p: request_stream(m, history(p, "w1x")),
    }
    refusals = {
        "image": refused(lambda p: parts.UserPromptPart([ImageUrl(f"https://{p.canary}")])),
        "image of a tool": refused(
            lambda p: parts.ToolReturnPart("f", ImageUrl(f"https://{p.canary}"), tool_call_id="c")
        ),
        "output of no call": refused(
            lambda p: parts.ToolReturnPart("f", p.canary, tool_call_id=p.canary)
        ),
        "another part": refused(lambda p: p.canary),
        "own words": refused_answer(lambda p: parts.TextPart(p.canary)),
        "own call": refused_answer(lambda p: parts.ToolCallPart("f", {"word": p.canary})),
        "another answer": refused_answer(lambda p: p.canary),
        "no message": lambda m, p: request(m, [p.canary]),
        "compacted": lambda m, p: m.compact_messages(p.canary),
    }
