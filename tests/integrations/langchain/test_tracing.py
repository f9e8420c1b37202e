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


def assert_unrecorded(probe):
    assert not probe.leaks()
    assert probe.charges
    RunnableLambda(raw_step).invoke(probe.canary)
    recorders = {"LangSmith", "LangChain global handler", "console"}
    assert recorders <= {leak.split(":")[0] for leak in probe.leaks()}, "the recorders are deaf"


def test_a_tool_that_runs_an_agent(probe):
    helper = agent_of(probe)

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
    with untraced():
        asyncio.run(agent.ainvoke(given(probe)))
    assert_unrecorded(probe)


def test_tracing_v2_enabled_around_the_block(probe):
    agent = agent_of(probe)
    with tracing_v2_enabled(), untraced():
        agent.invoke(given(probe))
    assert_unrecorded(probe)


BEGUN = {
    "stream": lambda agent, value: agent.stream(value),
    "stream tokens": lambda agent, value: agent.stream(value, stream_mode="messages"),
    "bound": lambda agent, value: agent.with_config(tags=["x"]).stream(value),
    "sequence": lambda agent, value: (RunnableLambda(lambda x: x) | agent).stream(value),
    "transform": lambda agent, value: agent.transform(iter([value])),
    "events": lambda agent, value: iter(agent.stream_events(value, version="v3")),
    "completed": lambda agent, value: agent.batch_as_completed([value]),
    "astream": lambda agent, value: agent.astream(value),
    "astream tokens": lambda agent, value: agent.astream(value, stream_mode="messages"),
    "bound, astream": lambda agent, value: agent.with_config(tags=["x"]).astream(value),
    "astream_events": lambda agent, value: agent.astream_events(value, version="v2"),
    "log": lambda agent, value: agent.astream_log(value),
    "completed in a loop": lambda agent, value: agent.abatch_as_completed([value]),
    "ainvoke": lambda agent, value: agent.ainvoke(value),
    "abatch": lambda agent, value: agent.abatch([value]),
    "sequence, ainvoke": lambda agent, value: (RunnableLambda(lambda x: x) | agent).ainvoke(value),
}


@pytest.mark.parametrize("call", BEGUN.values(), ids=BEGUN)
def test_streams_and_coroutines_that_are_begun_in_the_block(call, probe):
    with untraced():
        assert result_of(lambda agent, p: call(agent, given(p)), agent_of(probe), probe)
    assert_unrecorded(probe)


def test_a_task_that_runs_on_after_the_block(probe):
    async def main():
        with untraced():
            task = asyncio.create_task(agent_of(probe).ainvoke(given(probe)))
        return await task

    assert asyncio.run(main())
    assert_unrecorded(probe)


def test_an_agent_that_runs_after_the_block_or_in_a_thread_of_ones_own_is_refused(probe):
    agent = agent_of(probe)
    with untraced(), ThreadPoolExecutor(1) as pool:
        pieces = agent.stream(given(probe))
        in_pool = pool.submit(agent.invoke, given(probe))
    for late in (lambda: list(pieces), in_pool.result):
        with pytest.raises(ParameterError, match="expected no tracer"):
            late()
    assert not probe.remote.requests


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
