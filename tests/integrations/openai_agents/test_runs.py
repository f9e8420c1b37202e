"""Agents of the OpenAI Agents SDK under pseudonyms: tools see the originals, the remote none."""

import asyncio

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

import openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool
from agents.models.interface import Model
from openai.types.responses import ResponseReasoningItem
from openai_agents_dp_middleware import DPModel, private_run, release_input
from support.entities import CONTRACT
from support.pseudonymous import calling, name_in, pseudonyms

import dp_middleware as dp

SECOND = "And what of Berlin?"


def inner(remote):
    client = openai.AsyncOpenAI(api_key="none", base_url=remote.url, max_retries=0)
    return OpenAIChatCompletionsModel("gpt-4o-mini", client)


def config(remote, session=None, **settings):
    return private_run(session or pseudonyms(), inner(remote), tracing_disabled=True, **settings)


def look_up(found):
    """A tool that keeps what it is asked and says it."""

    @function_tool(name_override="look_up")
    def tool(name: str) -> str:
        found.append(name)
        return f"{name} of Acme Trading Ltd"

    return tool


@pytest.mark.parametrize("streams", [False, True])
def test_tools_and_users_see_the_originals(streams, remote):
    found = []
    remote.reply = calling
    agent = Agent("helper", instructions="Help Mirela Tamburi.", tools=[look_up(found)])
    asked = {"input": "Who is Mirela Tamburi?", "run_config": config(remote, tools=["look_up"])}
    pieces = []

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
    first, second = remote.requests
    assert second["messages"][: len(first["messages"])] == first["messages"]


def test_turns_are_released_once_also_by_another_agent(remote):
    """Its instructions are an event of their own, so they change nothing behind them."""
    remote.mode = "echo"
    kept, how = SQLiteSession("turns"), config(remote, public_instructions=["Be brief."])

    async def run(text, instructions):
        agent = Agent("helper", instructions=instructions)
        return (await Runner.run(agent, text, session=kept, run_config=how)).final_output

    assert asyncio.run(run(CONTRACT, "Be brief.")) == CONTRACT
    assert asyncio.run(run(SECOND, "Be long.")) == SECOND
    rules, asked = remote.requests[0]["messages"]
    _, again, answer, _ = remote.requests[1]["messages"]
    assert rules["content"] == "Be brief."
    assert again == asked
    assert answer["content"] == asked["content"]  # its own words, not what was shown


def test_the_filter_gives_answers_pseudonyms_too(remote):
    remote.mode = "echo"
    how = config(remote)
    how.model, how.call_model_input_filter = inner(remote), release_input(pseudonyms())
    given = [
        {"role": "user", "content": CONTRACT},
        {"role": "assistant", "content": "Mirela Tamburi said no"},
        {"role": "user", "content": "Who is Mirela Tamburi?"},
    ]
    result = asyncio.run(Runner.run(Agent("helper"), given, run_config=how))
    said = remote.requests[0]["messages"][1]["content"]
    assert said.endswith("said no")
    assert name_in(result.final_output) in said


class Thinking(Model):
    """Answers with a thought that repeats the question."""

    async def get_response(self, instructions, given, *args, **options):
        self.given = given
        summary = [{"type": "summary_text", "text": given[0]["content"]}]
        item = ResponseReasoningItem(id="rs_1", type="reasoning", summary=summary)
        from agents import ModelResponse, Usage

        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


@pytest.mark.parametrize("keeps_id", [True, False])
def test_thoughts_go_out_again_in_the_models_words(keeps_id):
    model, remote = None, Thinking()
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
    with pytest.raises(dp.errors.ParameterError, match="trace_include_sensitive_data"):
        config(remote, trace_include_sensitive_data=True)
    with pytest.raises(dp.errors.ParameterError, match="model="):
        config(remote, model="gpt-4o")
    with pytest.raises(dp.errors.ParameterError, match=r"agents\.Model"):
        DPModel(pseudonyms(), DPModel(pseudonyms(), inner(remote)))
    with pytest.raises(dp.errors.ParameterError, match="collection of texts"):
        config(remote, public_instructions="be brief")


@pytest.mark.parametrize("own", [False, True])
def test_an_error_that_the_framework_tells_is_released(own, remote):
    """As docs/tools.md says: only with ``failure_error_function=None`` does it leave the run."""
    options = {"failure_error_function": lambda _, error: f"no: {error}"} if own else {}

    @function_tool(name_override="look_up", **options)
    def tool(name: str) -> str:
        raise KeyError(f"no record of {name}")

    remote.reply = calling
    how = config(remote, tools=["look_up"])
    result = asyncio.run(
        Runner.run(Agent("helper", tools=[tool]), "Who is Mirela Tamburi?", run_config=how)
    )
    assert "no record of Mirela Tamburi" in result.final_output  # its user's alone
