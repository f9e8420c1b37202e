"""DPAgentMiddleware in real agents of create_agent, against a real server that speaks OpenAI's."""

from __future__ import annotations

import itertools

import pytest
from langchain.agents import create_agent, middleware as layers
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_dp_middleware import (
    DPAgentMiddleware,
    note_answer,
    untraced,
)
from langgraph.checkpoint.memory import InMemorySaver
from support.contract import ToolCall, TraceSafeContract
from support.contract.calls import result_of
from support.langchain import IMAGE

import dp_middleware as dp
from dp_middleware.errors import EventRefused

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
    retry = layers.ModelRetryMiddleware(max_retries=2, on_failure="error", **NO_WAIT)
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


def ask(agent, value):
    """In a thread; of a text, a message, a command, or None to go on."""
    given = {"messages": [value]} if isinstance(value, str | HumanMessage) else value
    with untraced():
        return agent.invoke(given, thread())


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
    return _last(ask(agent, HumanMessage(probe.private_text, id="m1")))


def _refused(message):
    return lambda agent, probe: ask(
        agent, {"messages": [("user", probe.private_text), message(probe), ("user", "w1x")]}
    )


@pytest.mark.slow
class TestContract(TraceSafeContract):
    calls = {
        "invoke": _quiet(lambda a, v, c: a.invoke(v, c), _last),
        "ainvoke": _quiet(lambda a, v, c: a.ainvoke(v, c), _last),
        "batch": _quiet(lambda a, v, c: a.batch([v], c)[0], _last),
        "stream tokens": _quiet(lambda a, v, c: a.stream(v, c, stream_mode="messages"), _texts),
        "astream tokens": _quiet(lambda a, v, c: a.astream(v, c, stream_mode="messages"), _texts),
        "astream_events": _quiet(lambda a, v, c: a.astream_events(v, c, version="v2"), _answers),
    }
    replays = {"invoke": _again}
    retries = {"invoke": calls["invoke"], "ainvoke": calls["ainvoke"]}
    refusals = {
        "image": _refused(lambda p: HumanMessage([IMAGE])),
        "AI message of another": _refused(lambda p: AIMessage(p.private_text)),
        "AI tool call of another": _refused(
            lambda p: AIMessage("", tool_calls=[{"name": "x", "args": {"q": p.canary}, "id": "1"}])
        ),
    }

    def adapter(self, probe):
        probe.remote.reply = loop
        self.middleware = DPAgentMiddleware(probe.session())
        retry = layers.ModelRetryMiddleware(max_retries=2, on_failure="error", **NO_WAIT)
        return create_agent(
            probe.chat_openai(), tools_of(probe), middleware=[retry, self.middleware]
        )

    def exposed(self, adapter, probe):
        return [self.middleware]


# turns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "exit"])
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


def test_a_message_in_its_thread_is_released_once_and_again_if_it_is_edited(probe):
    agent, words = agent_of(probe, saver=InMemorySaver()), " ".join(probe.words)
    edited = " ".join(reversed(probe.words))
    with untraced():
        for name, text in (("t", words), ("t", words), ("t", edited), ("other", words)):
            agent.invoke({"messages": [HumanMessage(text, id="m1")]}, thread(name))
    first, same, *others = [request[1]["content"] for request in sent(probe)]
    assert first == same
    assert len({first, *others}) == len(probe.charges) == 3


# what goes out -----------------------------------------------------------------------------------


def test_a_message_that_another_middleware_puts_in_is_released_once_per_call(probe):
    put_in = HumanMessage(probe.new_text())  # without an id

    @layers.wrap_model_call
    def injecting(request, handler):
        *before, last = request.messages
        return handler(request.override(messages=[*before, put_in, last]))

    agent = agent_of(probe, injecting, saver=InMemorySaver())
    probe.remote.failures = 2
    ask(agent, probe.new_text())
    assert len(set(probe.remote.bodies)) == 1
    assert len(probe.charges) == 2
    ask(agent, probe.new_text())
    assert len(probe.charges) == 4
    assert not probe.leaks()


def test_what_the_remote_model_wrote_goes_out_whatever_the_state_shows(probe):
    @layers.after_model
    def rewriting(state, runtime):
        """Lets the user's words into what the model had written."""
        last = state["messages"][-1]
        calls = [{**call, "args": {"q": probe.canary}} for call in last.tool_calls]
        update = {"content": probe.canary, "tool_calls": calls}
        return {"messages": [last.model_copy(update=update)]}

    probe.remote.script.append([ToolCall(name="look_up", arguments={"q": "w1x"})])
    agent = agent_of(probe, rewriting, saver=InMemorySaver())
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
