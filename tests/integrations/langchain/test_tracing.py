"""What begins inside ``untraced()`` is untraced to its end, wherever it runs and is read.

The probe's LangSmith is on by the environment, ``set_debug`` too, and a handler is in every call.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from threading import Thread

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_dp_middleware import DPAgentMiddleware, untraced
from langsmith import traceable

from dp_middleware.testing import Probe, ToolCall


@pytest.fixture
def probe(tmp_path, capsys):
    with Probe(tmp_path, captured=capsys.readouterr) as probe:
        yield probe


def raw_step(text):
    return f"raw {text}"


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        yield pool


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


# threads -----------------------------------------------------------------------------------------


def in_thread(function, *args):
    thread = Thread(target=function, args=args)
    thread.start()
    thread.join()


def in_new_pool(function, *args):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function, *args).result()


def in_old_loop(function, *args):
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, function, *args)

    asyncio.run(main())


def in_pool_of_multiprocessing(function, *args):
    with ThreadPool(1) as pool:
        pool.apply(function, args)


ELSEWHERE = [in_thread, in_new_pool, in_old_loop, in_pool_of_multiprocessing]


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_an_agent_in_a_thread_that_starts_in_the_block(elsewhere, probe):
    agent = agent_of(probe)
    with untraced():
        elsewhere(agent.invoke, given(probe))
    assert_unrecorded(probe)


def test_an_agent_in_a_pool_that_was_there_before(probe, pool):
    agent = agent_of(probe)
    with untraced():
        pool.submit(agent.invoke, given(probe)).result()
    assert_unrecorded(probe)


def test_an_agent_in_a_pool_of_multiprocessing_that_was_there_before(probe):
    agent = agent_of(probe)
    with ThreadPool(1) as pool, untraced():
        pool.apply(agent.invoke, (given(probe),))
        pool.map(agent.invoke, [given(probe)])
        list(pool.imap(agent.invoke, [given(probe)]))
        list(pool.imap_unordered(agent.invoke, [given(probe)]))
    assert_unrecorded(probe)


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_tool_that_runs_an_agent_in_a_thread(elsewhere, probe):
    helper = agent_of(probe)

    @traceable
    def noted(text: str) -> str:
        return text

    def delegate() -> None:
        helper.invoke(given(probe))
        noted(probe.new_text())
        RunnableLambda(raw_step).invoke(probe.new_text(), {"callbacks": []})

    @tool
    def look_up(q: str) -> str:
        """Asks another agent."""
        elsewhere(delegate)
        delegate()
        return "done"

    agent = agent_of(probe, look_up)
    with untraced():
        agent.invoke(given(probe))
    assert_unrecorded(probe)


class Recording(BaseCallbackHandler):
    """A handler that a tool or a model is made with."""

    def __init__(self, probe):
        self.probe, self.seen = probe, []

    def on_tool_start(self, serialized, input_str, **kwargs):
        self.seen.append(input_str)

    def on_tool_end(self, output, **kwargs):
        self.seen.append(str(output))


def test_handlers_that_a_tool_is_made_with(probe):
    handler = Recording(probe)

    @tool
    def look_up(q: str) -> str:
        """Looks something up."""
        return f"found {probe.new_text()}"

    look_up.callbacks = [handler]
    agent = agent_of(probe, look_up)
    with untraced():
        agent.invoke(given(probe))
    assert not probe.leaks(handler=handler.seen)
    look_up.invoke({"q": "w1x"})
    assert probe.canary in str(handler.seen)


def test_tracing_v2_enabled_around_the_block(probe):
    agent = agent_of(probe)
    with tracing_v2_enabled(), untraced():
        in_thread(agent.invoke, given(probe))
        agent.invoke(given(probe))
    assert_unrecorded(probe)


# begun inside, read outside ----------------------------------------------------------------------


def drained(pieces):
    return [str(each) for each in pieces]


STREAMS = {
    "stream": lambda agent, value: agent.stream(value),
    "stream tokens": lambda agent, value: agent.stream(value, stream_mode="messages"),
    "bound": lambda agent, value: agent.with_config(tags=["x"]).stream(value),
    "sequence": lambda agent, value: (RunnableLambda(lambda x: x) | agent).stream(value),
    "transform": lambda agent, value: agent.transform(iter([value])),
    "events": lambda agent, value: agent.stream_events(value, version="v3"),
    "completed": lambda agent, value: agent.batch_as_completed([value]),
}
ASYNC_STREAMS = {
    "astream": lambda agent, value: agent.astream(value),
    "astream tokens": lambda agent, value: agent.astream(value, stream_mode="messages"),
    "bound": lambda agent, value: agent.with_config(tags=["x"]).astream(value),
    "events": lambda agent, value: agent.astream_events(value, version="v2"),
    "log": lambda agent, value: agent.astream_log(value),
    "completed": lambda agent, value: agent.abatch_as_completed([value]),
}
AWAITABLES = {
    "ainvoke": lambda agent, value: agent.ainvoke(value),
    "abatch": lambda agent, value: agent.abatch([value]),
    "sequence": lambda agent, value: (RunnableLambda(lambda x: x) | agent).ainvoke(value),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_stream_that_is_read_after_the_block(stream, probe):
    with untraced():
        pieces = stream(agent_of(probe), given(probe))
    assert drained(pieces)
    assert_unrecorded(probe)


def test_a_stream_that_is_begun_in_the_block_and_finished_after_it(probe, pool):
    with untraced():
        pieces = agent_of(probe).stream(given(probe))
        next(pieces)
    assert pool.submit(drained, pieces).result()
    assert_unrecorded(probe)


def test_a_stream_that_is_read_in_another_run(probe):
    with untraced():
        pieces = agent_of(probe).stream(given(probe))
    RunnableLambda(lambda x: len(drained(pieces))).invoke("w1x", probe.config)
    assert_unrecorded(probe)


@pytest.mark.parametrize("stream", ASYNC_STREAMS.values(), ids=ASYNC_STREAMS)
@pytest.mark.parametrize("begun", [False, True])
def test_an_asynchronous_stream_that_another_task_reads(begun, stream, probe):
    async def read(pieces):
        return [each async for each in pieces]

    async def main():
        outside = contextvars.copy_context()
        with untraced():
            pieces = stream(agent_of(probe), given(probe))
            first = [await anext(pieces)] if begun else []
        return first + await asyncio.create_task(read(pieces), context=outside)

    assert asyncio.run(main())
    assert_unrecorded(probe)


@pytest.mark.parametrize("call", AWAITABLES.values(), ids=AWAITABLES)
def test_a_coroutine_that_is_awaited_after_the_block(call, probe):
    async def main():
        with untraced():
            waiting = call(agent_of(probe), given(probe))
        return await waiting

    assert asyncio.run(main())
    assert_unrecorded(probe)


def test_typed_events_that_are_read_after_the_block(probe):
    async def main():
        with untraced():
            waiting = agent_of(probe).astream_events(given(probe), version="v3")
        return [each async for each in await waiting]

    assert asyncio.run(main())
    assert_unrecorded(probe)


def test_a_task_that_runs_on_after_the_block(probe):
    async def main():
        with untraced():
            task = asyncio.create_task(agent_of(probe).ainvoke(given(probe)))
        return await task

    assert asyncio.run(main())
    assert_unrecorded(probe)


def test_methods_are_what_they_were_outside_of_the_block(probe):
    with untraced():
        pass
    assert inspect.iscoroutinefunction(RunnableLambda(raw_step).ainvoke)
    assert inspect.isgeneratorfunction(Runnable.stream)
    assert inspect.isasyncgenfunction(Runnable.astream)
    assert [*inspect.signature(Runnable.transform).parameters][:2] == ["self", "input"]
    pieces = RunnableLambda(raw_step).stream("w1x", probe.config)
    assert list(pieces) == ["raw w1x"]
    assert "w1x" in probe.records()["LangSmith"]
