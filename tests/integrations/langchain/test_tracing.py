"""What runs inside ``untraced()`` is untraced; an agent of ours refuses to run outside of it.

The probe's LangSmith is on by the environment, ``set_debug`` too, and a handler is in every call.
"""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers import context as hooks
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_dp_middleware import DPAgentMiddleware, untraced
from langsmith import traceable
from support.cases import over
from support.contract import ToolCall
from support.contract._langchain import CallbackRecorder
from support.contract.calls import result_of

from dp_middleware.errors import ParameterError


def raw_step(text):
    return f"raw {text}"


def looked_up(request):
    """Calls the tool once, then answers."""
    if request["messages"][-1]["role"] == "tool":
        return "a fine answer"
    return [ToolCall(name="look_up", arguments={"q": "w1x"}, id="look-up")]


def agent_of(probe, *tools):
    @tool
    def look_up(q: str) -> str:
        """Looks something up."""
        return f"found {probe.new_text()}"

    probe.remote.reply = looked_up
    ours = DPAgentMiddleware(probe.session())
    return create_agent(probe.chat_openai(), [*(tools or [look_up])], middleware=[ours])


def given(probe):
    return {"messages": [("user", probe.new_text())]}


@pytest.fixture
def unheard(probe):
    """Records nothing of a test, and is not deaf."""
    yield probe
    assert not probe.leaks()
    assert probe.charges
    RunnableLambda(raw_step).invoke(probe.canary)
    recorders = {"LangSmith", "LangChain global handler", "console"}
    assert recorders <= {leak.split(":")[0] for leak in probe.leaks()}, "the recorders are deaf"


def test_a_tool_that_runs_an_agent(unheard):
    probe, helper = unheard, agent_of(unheard)

    @traceable
    def noted(text: str) -> str:
        return text

    @tool
    async def look_up(q: str) -> str:
        """Asks another agent, here and in a thread that takes its context along."""
        helper.invoke(given(probe))
        await asyncio.to_thread(helper.invoke, given(probe))
        noted(probe.new_text())
        await asyncio.create_task(RunnableLambda(raw_step).ainvoke(probe.new_text()))
        return "done"

    agent = agent_of(probe, look_up)
    with tracing_v2_enabled(), untraced():
        asyncio.run(agent.ainvoke(given(probe)))


BEGUN = {
    "stream": lambda agent, value: agent.stream(value),
    "stream tokens": lambda agent, value: agent.stream(value, stream_mode="messages"),
    "transform": lambda agent, value: agent.transform(iter([value])),
    "events": lambda agent, value: iter(agent.stream_events(value, version="v3")),
    "completed": lambda agent, value: agent.batch_as_completed([value]),
    "astream": lambda agent, value: agent.astream(value),
    "bound, astream": lambda agent, value: agent.with_config(tags=["x"]).astream(value),
    "astream_events": lambda agent, value: agent.astream_events(value, version="v2"),
    "log": lambda agent, value: agent.astream_log(value),
    "completed in a loop": lambda agent, value: agent.abatch_as_completed([value]),
    "ainvoke": lambda agent, value: agent.ainvoke(value),
    "sequence, ainvoke": lambda agent, value: (RunnableLambda(lambda x: x) | agent).ainvoke(value),
}


@over("path", BEGUN)
def test_streams_and_coroutines_that_are_begun_in_the_block(path, unheard):
    charged, agent = len(unheard.charges), agent_of(unheard)
    with untraced():
        assert result_of(lambda agent, p: BEGUN[path](agent, given(p)), agent, unheard)
    assert len(unheard.charges) > charged
    assert not unheard.leaks()


def test_a_task_that_runs_on_after_the_block(unheard):
    async def main():
        with untraced():
            task = asyncio.create_task(agent_of(unheard).ainvoke(given(unheard)))
        return await task

    assert asyncio.run(main())


def test_the_run_around_the_block_is_told_nothing(unheard):
    def step(text):
        with untraced():
            return agent_of(unheard).invoke(given(unheard))["messages"][-1].text

    assert RunnableLambda(step).invoke("w1x", unheard.config) == "a fine answer"


def test_an_agent_that_is_traced_is_refused_and_nothing_is_sent(probe):
    """Also one that runs after the block, or in a thread of one's own."""
    agent, value, config = agent_of(probe), given(probe), probe.config
    with untraced(), ThreadPoolExecutor(1) as pool:
        pieces, in_pool = agent.stream(value), pool.submit(agent.invoke, value)
        with pytest.raises(ParameterError, match="CallbackRecorder"):
            agent.invoke(value, config)
    for call in (
        lambda agent, p: agent.invoke(value),
        lambda agent, p: agent.ainvoke(value),
        lambda agent, p: agent.astream_events(value, version="v2"),
        lambda agent, p: pieces,
        lambda agent, p: in_pool.result(),
    ):
        with pytest.raises(ParameterError, match="expected no tracer"):
            result_of(call, agent, probe)
    assert not probe.remote.requests
    assert not probe.charges


def test_a_handler_in_every_call_is_refused(monkeypatch):
    variable = contextvars.ContextVar("variable", default=None)
    monkeypatch.setenv("RECORDED", "true")
    monkeypatch.setattr(hooks, "_configure_hooks", [(variable, True, CallbackRecorder, "RECORDED")])
    with pytest.raises(ParameterError, match="CallbackRecorder"), untraced():
        pass


def test_recorders_are_as_before_after_the_block(probe):
    with untraced():
        pass
    assert list(RunnableLambda(raw_step).stream("w1x", probe.config)) == ["raw w1x"]
    assert "w1x" in probe.records()["LangSmith"]
