"""The trace-safe contract for models of the OpenAI Agents SDK."""

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    function_tool,
)
from agents.models.interface import ModelTracing
from openai_agents_dp_middleware import DPModel
from support.contract import ToolCall, TraceSafeContract
from support.loops import async_client

BRIEF = "be brief"


class Contract(TraceSafeContract):
    requires = frozenset({"OpenAI Agents traces"})

    def inner(self, probe):
        return OpenAIChatCompletionsModel("gpt-4o-mini", async_client(probe.remote.url))

    def adapter(self, probe):
        return DPModel(probe.session(), self.inner(probe), public_instructions=[BRIEF])


def helper(probe, instructions=BRIEF):
    """An agent whose tool's output is private too; the model calls it first."""

    @function_tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word} {probe.private_text}"

    def reply(request):
        if request["messages"][-1]["role"] == "tool":
            return "a fine answer"
        return [ToolCall(name="look_up", arguments={"word": "w1x"})]

    probe.remote.reply = reply
    return Agent("helper", instructions=instructions, tools=[look_up])


async def run(config, probe, agent=None):
    result = await Runner.run(agent or helper(probe), probe.new_text(), run_config=config)
    return result.raw_responses, result.final_output


async def run_streamed(config, probe):
    result = Runner.run_streamed(helper(probe), probe.new_text(), run_config=config)
    events = [event async for event in result.stream_events()]
    return [event.data for event in events if event.type == "raw_response_event"]


class TestRuns(Contract):
    """Agents, whose tools give private text too."""

    calls = {
        "run": run,
        "run_streamed": run_streamed,
        "private instructions": lambda c, p: run(c, p, helper(p, p.private_text)),
        "instructions that are made": lambda c, p: run(
            c, p, helper(p, lambda context, agent: p.new_text())
        ),
    }

    def adapter(self, probe):
        return RunConfig(model=super().adapter(probe), trace_include_sensitive_data=False)

    def exposed(self, adapter, probe):
        return [adapter.model]


def history(probe, text, *more):
    """A message in each private role, and the canary in each private slot."""
    return [
        {"role": "user", "content": text, "name": probe.canary},
        {"role": "developer", "content": probe.private_text},
        {"role": "user", "content": [{"type": "input_text", "text": probe.private_text}] * 2},
        *more,
    ]


def asked(given):
    """Arguments of a model's own methods."""
    rest = [ModelSettings(), [], None, [], ModelTracing.DISABLED]
    ids = {"previous_response_id": None, "conversation_id": None, "prompt": None}
    return (BRIEF, given, *rest), ids


async def get_response(model, given, **more):
    args, ids = asked(given)
    return (await model.get_response(*args, **{**ids, **more})).output


async def stream_response(model, given):
    args, ids = asked(given)
    return [event async for event in model.stream_response(*args, **ids)]


async def tried_twice(model, probe):
    given = history(probe, probe.new_text())
    try:
        return await get_response(model, given)
    except Exception:
        return await get_response(model, given)


def refused(item):
    return lambda m, p: get_response(m, history(p, p.new_text(), item(p)))


class TestDPModel(Contract):
    retries = {"get_response": tried_twice}
    calls = {
        "get_response": lambda m, p: get_response(m, history(p, p.new_text())),
        "stream_response": lambda m, p: stream_response(m, p.new_text()),
    }
    replays = {
        "get_response": lambda m, p: get_response(m, history(p, "w1x")),
        "stream_response": lambda m, p: stream_response(m, p.private_text),
    }
    refusals = {
        "image": refused(
            lambda p: {"role": "user", "content": [{"type": "input_image", "image_url": p.canary}]}
        ),
        "own words": refused(lambda p: {"role": "assistant", "content": p.canary}),
        "own call": refused(
            lambda p: {"type": "function_call", "name": "f", "arguments": p.canary, "call_id": "c"}
        ),
        "output of no call": refused(
            lambda p: {"type": "function_call_output", "call_id": p.canary, "output": "w1x"}
        ),
        "another kind": refused(lambda p: {"type": p.canary}),
        "no item": refused(lambda p: p.canary),
        "another role": refused(lambda p: {"role": p.canary, "content": "w1x"}),
        "kept elsewhere": lambda m, p: get_response(m, p.new_text(), conversation_id=p.canary),
        "variables of a prompt": lambda m, p: get_response(
            m, "w1x", prompt={"id": "p", "variables": {"name": p.canary}}
        ),
    }
