"""Agents of the OpenAI Agents SDK under pseudonyms: tools see the originals, the remote none."""

import asyncio

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from agents import (
    Agent,
    ModelResponse,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
)
from agents.models.interface import Model
from openai.types.responses import ResponseReasoningItem
from openai_agents_dp_middleware import DPModel, private_run
from support.cases import over
from support.entities import CONTRACT
from support.loops import async_client
from support.pseudonymous import calling, pseudonyms

import dp_middleware as dp

WHO = "Who is Mirela Tamburi?"
SECOND = "And what of Berlin?"


def inner(remote):
    return OpenAIChatCompletionsModel("gpt-4o-mini", async_client(remote.url))


def config(remote, **settings):
    return private_run(pseudonyms(), inner(remote), tracing_disabled=True, **settings)


@over("streams", [False, True])
def test_tools_and_users_see_the_originals(streams, remote):
    found, pieces = [], []

    @function_tool
    def look_up(name: str) -> str:
        found.append(name)
        return f"{name} of Acme Trading Ltd"

    remote.reply = calling
    agent = Agent("helper", instructions="Help Mirela Tamburi.", tools=[look_up])
    asked = {"input": WHO, "run_config": config(remote, tools=["look_up"])}

    async def run():
        if not streams:
            return (await Runner.run(agent, **asked)).final_output
        result = Runner.run_streamed(agent, **asked)
        async for event in result.stream_events():
            data = getattr(event, "data", None)
            if getattr(data, "type", "") == "response.output_text.delta":
                pieces.append(data.delta)
        return result.final_output

    assert asyncio.run(run()) == "Mirela Tamburi of Acme Trading Ltd"
    assert found == ["Mirela Tamburi"]
    if streams:
        assert "".join(pieces) == "Mirela Tamburi of Acme Trading Ltd"
    first, second = remote.requests[-2:]
    assert second["messages"][: len(first["messages"])] == first["messages"]


def test_turns_are_released_once_also_by_another_agent(remote):
    """Its instructions are an event of their own, so they change nothing behind them."""
    remote.mode = "echo"
    kept, how = SQLiteSession("turns"), config(remote, public_instructions=["Be brief."])

    def run(text, instructions):
        agent = Agent("helper", instructions=instructions)
        return asyncio.run(Runner.run(agent, text, session=kept, run_config=how)).final_output

    assert run(CONTRACT, "Be brief.") == CONTRACT
    assert run(SECOND, "Be long.") == SECOND
    rules, asked = remote.requests[0]["messages"]
    _, again, answer, _ = remote.requests[1]["messages"]
    assert rules["content"] == "Be brief."
    assert again == asked
    assert answer["content"] == asked["content"]  # its own words, not what was shown


class Thinking(Model):
    """Answers with a thought that repeats the question."""

    async def get_response(self, instructions, given, *args, **options):
        self.given = given
        summary = [{"type": "summary_text", "text": given[0]["content"]}]
        item = ResponseReasoningItem(id="rs_1", type="reasoning", summary=summary)
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    stream_response = None


@over("keeps_id", [True, False])
def test_thoughts_go_out_again_in_the_models_words(keeps_id):
    remote = Thinking()
    model = DPModel(pseudonyms(), remote)
    options = {"previous_response_id": None, "conversation_id": None, "prompt": None}
    question = {"role": "user", "content": "Mirela Tamburi"}
    response = asyncio.run(model.get_response(None, [question], **options))
    thought = response.output[0].model_dump(exclude_unset=True)
    assert thought["summary"][0]["text"] == "Mirela Tamburi"
    if not keeps_id:
        del thought["id"]
    asyncio.run(model.get_response(None, [question, thought], **options))
    asked, again = remote.given
    assert again["summary"][0]["text"] == asked["content"] != "Mirela Tamburi"


def test_what_is_no_private_run_is_refused(remote):
    for wrong in (
        {"trace_include_sensitive_data": True},
        {"model": "gpt-4o"},
        {"public_instructions": "be brief"},
    ):
        with pytest.raises(dp.errors.ParameterError, match=next(iter(wrong)) + "|collection of"):
            config(remote, **wrong)
    with pytest.raises(dp.errors.ParameterError, match=r"agents\.Model"):
        DPModel(pseudonyms(), DPModel(pseudonyms(), inner(remote)))


@over("options", [{}, {"failure_error_function": lambda _, error: f"no: {error}"}])
def test_an_error_that_the_framework_tells_is_released(options, remote):
    """As docs/tools.md says: only with ``failure_error_function=None`` does it leave the run."""

    @function_tool(**options)
    def look_up(name: str) -> str:
        raise KeyError(f"no record of {name}")

    remote.reply, how = calling, config(remote, tools=["look_up"])
    result = asyncio.run(Runner.run(Agent("helper", tools=[look_up]), WHO, run_config=how))
    assert "no record of Mirela Tamburi" in result.final_output  # its user's alone
