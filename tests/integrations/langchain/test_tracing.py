"""Inside ``untraced()`` nothing is recorded, whatever an agent runs and however it is called.

The probe's LangSmith is on by the environment, ``set_debug`` too, and a handler is in every call.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_dp_middleware import DPAgentMiddleware, untraced
from langsmith import traceable

from dp_middleware.errors import ParameterError
from dp_middleware.testing import Probe, ToolCall


@pytest.fixture
def probe(tmp_path, capsys):
    with Probe(tmp_path, captured=capsys.readouterr) as probe:
        yield probe


def agent_of(probe, *tools):
    @tool
    def look_up(q: str) -> str:
        """Looks something up."""
        return f"found {probe.new_text()}"

    call = [ToolCall(name="look_up", arguments={"q": "w1x"}, id="look-up")]
    probe.remote.reply = lambda request: (
        "a fine answer" if request["messages"][-1]["role"] == "tool" else call
    )
    ours = DPAgentMiddleware(probe.session())
    return create_agent(probe.chat_openai(), [*(tools or [look_up])], middleware=[ours])


def given(probe):
    return {"messages": [("user", probe.new_text())]}


def assert_unrecorded(probe):
    assert not probe.leaks()
    assert probe.charges
    RunnableLambda(lambda text: f"raw {text}").invoke(probe.canary)
    recorders = {"LangSmith", "LangChain global handler", "console"}
    assert recorders <= {leak.split(":")[0] for leak in probe.leaks()}, "the recorders are deaf"


async def _read(pieces):
    return [piece async for piece in pieces]


CALLS = {
    "batch": lambda agent, value: agent.batch([value]),
    "stream tokens": lambda agent, value: list(agent.stream(value, stream_mode="messages")),
    "bound": lambda agent, value: list(agent.with_config(tags=["x"]).stream(value)),
    "sequence": lambda agent, value: list((RunnableLambda(lambda x: x) | agent).stream(value)),
    "ainvoke": lambda agent, value: asyncio.run(agent.ainvoke(value)),
    "astream": lambda agent, value: asyncio.run(_read(agent.astream(value))),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_agent_in_the_block(call, probe):
    agent = agent_of(probe)
    with untraced():
        assert CALLS[call](agent, given(probe))
    assert_unrecorded(probe)


def test_a_tracer_around_the_block_is_told_nothing(probe):
    agent = agent_of(probe)
    with tracing_v2_enabled(), contextlib.suppress(ParameterError), untraced():
        agent.invoke(given(probe))
    assert not probe.leaks()


def test_a_tool_that_runs_an_agent_and_what_is_traced(probe):
    helper = agent_of(probe)

    @traceable
    def noted(text: str) -> str:
        return text

    @tool
    def look_up(q: str) -> str:
        """Asks another agent."""
        helper.invoke(given(probe))
        noted(probe.new_text())
        RunnableLambda(noted).invoke(probe.new_text())
        return "done"

    agent = agent_of(probe, look_up)
    with untraced():
        agent.invoke(given(probe))
    assert_unrecorded(probe)
