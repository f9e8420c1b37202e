"""DPAgentMiddleware in real agents of create_agent, against a real server that speaks OpenAI's."""

from __future__ import annotations

import asyncio
import itertools
from typing import Annotated

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
)
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool
from langchain_dp_middleware import (
    DPAgentMiddleware,
    DPChatModel,
    PrivateHead,
    note_answer,
    untraced,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support.contract import ToolCall, TraceSafeContract
from support.contract.calls import result_of
from support.langchain import IMAGE

import dp_middleware as dp
from dp_middleware.errors import (
    EventRefused,
    ParameterError,
)

NO_WAIT = {"initial_delay": 0.0, "backoff_factor": 0.0, "jitter": False}


def tools_of(probe):
    @tool
    def look_up(q: str) -> str:
        """Looks something up."""
        return f"found {probe.new_text()}"

    @tool
    def measure(x: int) -> list:
        """Measures something."""
        return [{"type": "text", "text": probe.new_text()}]

    return [look_up, measure]


def loop(request):
    """Calls both tools, then answers with the number of messages it was sent."""
    messages = request["messages"]
    if messages[-1]["role"] == "tool":
        return f"answer {len(messages)}"
    look_up = ToolCall(name="look_up", arguments={"q": "w1x"}, id=f"look-{len(messages)}")
    return [look_up, ToolCall(name="measure", arguments={"x": 1}, id=f"measure-{len(messages)}")]


def agent_of(probe, *others, session=None, saver=None, **options):
    retry = ModelRetryMiddleware(max_retries=2, on_failure="error", **NO_WAIT)
    ours = DPAgentMiddleware(session or probe.session(), **options)
    return create_agent(
        probe.chat_openai(),
        tools_of(probe),
        system_prompt="public rules",
        middleware=[*others, retry, ours],
        checkpointer=saver,
    )


def thread(name="t"):
    return {"configurable": {"thread_id": name}}


def ask(agent, text, name="t"):
    with untraced():
        messages = text if text is None else {"messages": [("user", text)]}
        return agent.invoke(messages, thread(name))


async def aask(agent, text, name="t"):
    with untraced():
        return await agent.ainvoke({"messages": [("user", text)]}, thread(name))


def sent(probe):
    return [request["messages"] for request in probe.remote.requests]


def fresh(probe):
    blocks = [{"type": "text", "text": probe.new_text(), "extras": {"x": probe.canary}}, "w1x"]
    private = {"name": probe.canary, "additional_kwargs": {"x": probe.canary}}
    return {"messages": [HumanMessage(blocks, **private), ("user", probe.new_text())]}


# the contract ------------------------------------------------------------------------------------


def _quiet(call, read=lambda found: found):
    """A call with fresh messages in a fresh thread, whose result is read inside of the block."""

    def run(agent, probe):
        def begin(agent, probe):
            return call(agent, fresh(probe), thread(probe.new_id()))

        with untraced():
            return read(result_of(begin, agent, probe))

    return run


def _last(state):
    return state["messages"][-1]


def _texts(pieces):
    return [chunk.text for chunk, _ in pieces if isinstance(chunk, AIMessage)]


def _answers(events):
    return [event["data"] for event in events if event["event"] == "on_chat_model_end"]


def _again(agent, probe):
    probe.remote.reply = "a fine answer"
    with untraced():
        messages = [HumanMessage(probe.private_text, id="m1")]
        return agent.invoke({"messages": messages}, thread())["messages"][-1]


def _refused(*messages):
    def call(agent, probe):
        with untraced():
            given = [each(probe) if callable(each) else each for each in messages]
            return agent.invoke({"messages": given}, thread())

    return call


def _private(probe):
    return HumanMessage(probe.private_text)


CALLS = {
    "invoke": _quiet(lambda a, v, c: a.invoke(v, c), _last),
    "ainvoke": _quiet(lambda a, v, c: a.ainvoke(v, c), _last),
    "batch": _quiet(lambda a, v, c: a.batch([v], c)[0], _last),
    "stream tokens": _quiet(lambda a, v, c: a.stream(v, c, stream_mode="messages"), _texts),
    "astream tokens": _quiet(lambda a, v, c: a.astream(v, c, stream_mode="messages"), _texts),
    "astream_events": _quiet(lambda a, v, c: a.astream_events(v, c, version="v2"), _answers),
}
REPLAYS = {"invoke": _again}
RETRIES = {name: CALLS[name] for name in ("invoke", "ainvoke")}
REFUSALS = {
    "image": _refused(_private, HumanMessage([IMAGE])),
    "AI message of another": _refused(_private, lambda p: AIMessage(p.private_text), _private),
    "AI tool call of another": _refused(
        _private,
        lambda p: AIMessage("", tool_calls=[{"name": "x", "args": {"q": p.canary}, "id": "1"}]),
    ),
}


@pytest.mark.slow
class TestContract(TraceSafeContract):
    calls = CALLS
    replays = REPLAYS
    retries = RETRIES
    refusals = REFUSALS

    def adapter(self, probe):
        probe.remote.reply = loop
        self.middleware = DPAgentMiddleware(probe.session(), **self.options_of(probe))
        retry = ModelRetryMiddleware(max_retries=2, on_failure="error", **NO_WAIT)
        return create_agent(
            probe.chat_openai(), tools_of(probe), middleware=[retry, self.middleware]
        )

    def options_of(self, probe):
        return {}

    def exposed(self, adapter, probe):
        return [self.middleware]


# ten turns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_resumed_run_sends_the_same_bytes(durability, probe):
    agent = agent_of(probe, saver=InMemorySaver())
    probe.remote.mode = "error"
    with untraced(), pytest.raises(Exception, match="500"):
        agent.invoke(fresh(probe), thread(), durability=durability)
    charged = len(probe.charges)
    probe.remote.mode = "ok"
    ask(agent, None)
    assert len(set(probe.remote.bodies)) == 1
    assert len(probe.charges) == charged == 2


def test_another_process_with_the_memo_goes_on_from_the_checkpoint(probe, tmp_path):
    probe.remote.reply, saver = loop, InMemorySaver()
    for turn in range(3):
        session = dp.Session(probe.sanitizer(), memo=tmp_path / "memo.db", key=bytes(32))
        options = {"extractor": probe.extractor, "session": session}
        ask(agent_of(probe, saver=saver, **options), probe.new_text())
        assert len(probe.charges) == 3 * (turn + 1)
    for earlier, later in itertools.pairwise(sent(probe)):
        assert later[: len(earlier)] == earlier
    assert not probe.leaks()


@pytest.mark.parametrize(
    ("name", "text", "same"),
    [("t", "same", True), ("t", "edited", False), ("other", "same", False)],
)
def test_a_message_in_its_thread_is_released_once_and_again_if_it_is_edited(
    name, text, same, probe
):
    agent, words = agent_of(probe, saver=InMemorySaver()), " ".join(probe.words)
    texts = {"same": words, "edited": " ".join(reversed(probe.words))}
    with untraced():
        agent.invoke({"messages": [HumanMessage(words, id="m1")]}, thread())
        agent.invoke({"messages": [HumanMessage(texts[text], id="m1")]}, thread(name))
    first, second = [request[1]["content"] for request in sent(probe)]
    assert (first == second) is same
    assert len(probe.charges) == (1 if same else 2)


# what goes out -----------------------------------------------------------------------------------


class Injecting(AgentMiddleware):
    """Puts a private message without an id in front of the last one."""

    def __init__(self, probe):
        super().__init__()
        self.text = probe.new_text()

    def wrap_model_call(self, request, handler):
        *before, last = request.messages
        return handler(request.override(messages=[*before, HumanMessage(self.text), last]))


class Rewriting(AgentMiddleware):
    """Lets the user's words into what the model had written."""

    def __init__(self, probe):
        super().__init__()
        self.canary = probe.canary

    def after_model(self, state, runtime):
        last = state["messages"][-1]
        calls = [{**call, "args": {"q": self.canary}} for call in last.tool_calls]
        return {"messages": [last.model_copy(update={"content": self.canary, "tool_calls": calls})]}


def test_a_message_that_another_middleware_puts_in_is_released_once_per_call(probe):
    agent = agent_of(probe, Injecting(probe), saver=InMemorySaver())
    probe.remote.failures = 2
    ask(agent, probe.new_text())
    assert len(set(probe.remote.bodies)) == 1
    assert len(probe.charges) == 2
    ask(agent, probe.new_text())
    assert len(probe.charges) == 4
    assert not probe.leaks()


def test_what_the_remote_model_wrote_goes_out_whatever_the_state_shows(probe):
    probe.remote.script.append([ToolCall(name="look_up", arguments={"q": "w1x"})])
    agent = agent_of(probe, Rewriting(probe), saver=InMemorySaver())
    ask(agent, probe.new_text())
    ask(agent, probe.new_text())
    assistants = [each for each in sent(probe)[-1] if each["role"] == "assistant"]
    assert assistants[0]["tool_calls"][0]["function"]["arguments"] == '{"q": "w1x"}'
    assert assistants[1]["content"] == "a fine answer"
    assert not probe.leaks()


def test_another_ai_message_is_sent_if_it_was_noted_or_declared_public(probe):
    session = probe.session()
    known = AIMessage("said before", id="a1")
    messages = {"messages": [("user", probe.new_text()), known, ("user", probe.new_text())]}
    with untraced():
        with pytest.raises(EventRefused, match="note_answer"):
            agent_of(probe, session=session).invoke(messages, thread())
        agent_of(probe, ai="pass").invoke(messages, thread())
        note_answer(session, known, conversation="t")
        agent_of(probe, session=session).invoke(messages, thread())
    assert [request[2]["content"] for request in sent(probe)] == ["said before"] * 2


def catalog_agent(probe, *others):
    """One whose only tool is public."""

    @tool
    def catalog(q: str) -> str:
        """Public."""
        return "public"

    ours = DPAgentMiddleware(probe.session(), public_tools=["catalog"])
    probe.remote.script.append([ToolCall(name="catalog", arguments={"q": "w1x"})])
    return create_agent(
        probe.chat_openai(), [catalog], middleware=[*others, ours], checkpointer=InMemorySaver()
    )


HITL = {"catalog": {"allowed_decisions": ["approve", "edit", "reject", "respond"]}}


@pytest.mark.parametrize("kind", ["reject", "respond", "edit", "approve"])
def test_what_a_reviewer_says_in_a_public_tools_name_is_released(kind, probe):
    agent = catalog_agent(probe, HumanInTheLoopMiddleware(HITL))
    edited = {"name": "catalog", "args": {"q": probe.canary}}
    decision = {"type": kind, "message": probe.private_text, "edited_action": edited}
    ask(agent, probe.new_text())
    with untraced():
        agent.invoke(Command(resume={"decisions": [decision]}), thread())
    [*_, result] = sent(probe)[-1]
    assert result["role"] == "tool"
    assert (result["content"] == "public") is (kind == "approve")
    assert len(probe.charges) == (1 if kind == "approve" else 2)
    assert not probe.leaks()


class Forging(AgentMiddleware):
    """Writes something else into what a tool returned."""

    def __init__(self, text):
        super().__init__()
        self.text = text

    def wrap_tool_call(self, request, handler):
        return handler(request).model_copy(update={"content": self.text})

    async def awrap_tool_call(self, request, handler):
        return (await handler(request)).model_copy(update={"content": self.text})


def test_an_edited_result_of_a_public_tool_is_released(probe):
    ask(catalog_agent(probe, Forging(probe.private_text)), probe.new_text())
    assert len(probe.charges) == 2
    asyncio.run(aask(catalog_agent(probe, Forging(probe.private_text)), probe.new_text()))
    assert len(probe.charges) == 4
    assert not probe.leaks()


def test_a_public_tools_result_in_a_command_is_sent_and_its_error_is_released(probe):
    @tool
    def catalog(q: str, call: Annotated[str, InjectedToolCallId]) -> Command:
        """Public."""
        good = ToolMessage("public", tool_call_id=call, name="catalog")
        bad = ToolMessage(probe.private_text, tool_call_id=call, name="catalog", status="error")
        return Command(update={"messages": [bad if q == "bad" else good]})

    ours = DPAgentMiddleware(probe.session(), public_tools=["catalog"])
    agent = create_agent(probe.chat_openai(), [catalog], middleware=[ours])
    for argument, charges in (("good", 1), ("bad", 3)):
        probe.remote.script.append([ToolCall(name="catalog", arguments={"q": argument})])
        with untraced():
            agent.invoke({"messages": [("user", probe.new_text())]})
        assert len(probe.charges) == charges
    assert sent(probe)[1][-1]["content"] == "public"
    assert not probe.leaks()


def test_a_summary_by_a_protected_model_is_released_in_turn(probe):
    session = probe.session()
    summary = SummarizationMiddleware(
        DPChatModel(session, probe.chat_openai()), trigger=("messages", 4), keep=("messages", 1)
    )
    agent = agent_of(probe, summary, session=session, saver=InMemorySaver())
    for _ in range(4):
        ask(agent, probe.new_text())
    assert not probe.leaks()


# tracing -----------------------------------------------------------------------------------------


async def _read(pieces):
    return [piece async for piece in pieces]


class Counting(BaseCallbackHandler):
    """A handler, such as a tracer."""

    started = 0

    def on_chain_start(self, *args, **kwargs):
        self.started += 1


def test_an_agent_that_is_traced_is_refused_and_nothing_is_sent(probe):
    agent, messages = agent_of(probe), {"messages": [("user", "w1x")]}
    with pytest.raises(ParameterError, match="LangChainTracer"):
        agent.invoke(messages)
    with untraced(), pytest.raises(ParameterError, match="Counting"):
        agent.invoke(messages, {"callbacks": [Counting()]})
    with pytest.raises(ParameterError, match="untraced"):
        asyncio.run(agent.ainvoke(messages))
    with pytest.raises(ParameterError, match="AstreamEvents"):
        asyncio.run(_read(agent.astream_events(messages, version="v2")))
    assert not probe.remote.requests
    assert not probe.charges
    agent_of(probe, traced="allow").invoke(messages)
    assert len(probe.remote.requests) == 1


def test_a_head_that_notes_answers_in_front_of_an_agent(probe):
    session = probe.session()
    chain = PrivateHead(session, keys=["messages"], answers="note") | agent_of(
        probe, session=session
    )
    with untraced():
        found = chain.invoke({"messages": [HumanMessage(probe.new_text())]})
    assert found["messages"][-1].text == "a fine answer"
    assert not probe.leaks(found=found)


def test_untraced_hides_the_run_around_it(probe):
    outer = Counting()

    def step(text):
        return ask(agent_of(probe), probe.new_text())["messages"][-1].text

    assert RunnableLambda(step).invoke("w1x", {"callbacks": [outer]}) == "a fine answer"
    assert outer.started == 1
    assert not probe.leaks()
