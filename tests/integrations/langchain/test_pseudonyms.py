"""Pseudonyms with LangChain: the remote model sees none of the values, the caller sees all."""

import asyncio
import itertools
import json

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_dp_middleware import (
    DPAgentMiddleware,
    DPChatModel,
    PrivateHead,
    note_answer,
    untraced,
)
from pydantic import BaseModel
from support.chat_models import langchain_model
from support.contract import ToolCall
from support.entities import CONTRACT, HIDDEN
from support.pseudonymous import (
    ANSWERS,
    ASKED,
    QUESTIONS,
    assistant,
    customer_tools,
    name_in,
    pseudonyms,
)

import dp_middleware as dp

WHO = "Who is Mirela Tamburi?"


@pytest.fixture
def model(remote):
    remote.mode = "echo"
    return DPChatModel(pseudonyms(), langchain_model(remote.url))


def test_answers_come_back_with_the_originals(model, remote):
    answer = model.invoke([("user", CONTRACT)])
    assert answer.content == CONTRACT
    shown = str(answer.response_metadata)
    assert not any(value in shown for value in (*HIDDEN, "Mirela"))
    assert asyncio.run(model.ainvoke([("user", CONTRACT)])).content == CONTRACT
    assert model.generate([[HumanMessage(CONTRACT)]]).generations[0][0].text == CONTRACT
    assert [a.content for a in model.batch([[("user", CONTRACT)]] * 2)] == [CONTRACT] * 2


def test_streams_come_back_with_the_originals(model, remote):
    pieces = list(model.stream([("user", CONTRACT)]))
    assert len(pieces) > 5
    assert sum_of(pieces).content == CONTRACT

    async def gathered():
        return [piece.content async for piece in model.astream([("user", CONTRACT)])]

    assert "".join(asyncio.run(gathered())) == CONTRACT


def test_a_shown_answer_is_sent_again_as_the_remote_model_wrote_it(model, remote):
    question = HumanMessage(CONTRACT, id="q")
    answer = model.invoke([question])
    model.invoke([question, answer, HumanMessage("And Mirela?", id="q2")])
    first, second = (request["messages"] for request in remote.requests)
    assert second[0] == first[0]
    assert second[1]["content"] == first[0]["content"]


def test_calls_of_tools_have_the_originals_in_their_arguments(remote):
    def calls(request):
        arguments = {"who": {"name": name_in(request["messages"][0])}, "days": [1]}
        return [ToolCall(name="book", arguments=arguments)]

    @tool
    def book(who: dict, days: list) -> str:
        """Book."""
        return ""

    remote.reply = calls
    model = DPChatModel(pseudonyms(), langchain_model(remote.url), tools=["book"]).bind_tools(
        [book]
    )
    expected = {"who": {"name": "Mirela Tamburi"}, "days": [1]}
    answer = model.invoke([("user", WHO)])
    assert answer.tool_calls[0]["args"] == expected
    raw = answer.additional_kwargs.get("tool_calls")
    assert raw is None or json.loads(raw[0]["function"]["arguments"]) == expected
    assert sum_of(model.stream([("user", WHO)])).tool_calls[0]["args"] == expected


class Person(BaseModel):
    """Somebody."""

    name: str


def test_structured_output_and_chains_have_the_originals(remote, caplog):
    remote.reply = lambda request: [
        ToolCall(name="Person", arguments={"name": name_in(request["messages"][0])})
    ]
    inner = langchain_model(remote.url)
    model = DPChatModel(pseudonyms(), inner)
    structured = model.with_structured_output(Person, method="function_calling")
    assert structured.invoke([("user", WHO)]) == Person(name="Mirela Tamburi")
    assert not [each for each in caplog.records if each.name.startswith("dp_middleware")]
    remote.mode = "echo"
    prompt = ChatPromptTemplate.from_messages([("user", "{text}")])
    chain = PrivateHead(pseudonyms(), keys=["text"]) | prompt | inner | StrOutputParser()
    assert chain.invoke({"text": CONTRACT}) == CONTRACT
    assert "".join(chain.stream({"text": CONTRACT})) == CONTRACT
    head = PrivateHead(pseudonyms(), keys=["text"])
    assert "Mirela" not in head.invoke({"text": CONTRACT})["text"]  # the release itself


def agent_on(remote, session, *tools, saver=None, schema=None, **options):
    agents = pytest.importorskip("langchain.agents")
    return agents.create_agent(
        langchain_model(remote.url),
        list(tools),
        middleware=[DPAgentMiddleware(session, **options)],
        checkpointer=saver,
        response_format=schema,
    )


@pytest.mark.parametrize("in_loop", [False, True])
def test_an_agent_finds_its_customer_over_three_turns_and_the_remote_never_sees_her(
    in_loop, remote
):
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    asked, answers = [], []
    remote.reply, tools = assistant, customer_tools(asked)
    agent = agent_on(remote, pseudonyms(), *tools, saver=memory, tools=["look_up", "write"])
    for question in QUESTIONS:
        value = {"messages": [("user", question)]}, {"configurable": {"thread_id": "t"}}
        with untraced():
            state = asyncio.run(agent.ainvoke(*value)) if in_loop else agent.invoke(*value)
        answers.append(state["messages"][-1].content)
    assert (asked, answers) == (ASKED, ANSWERS)
    sent = [request["messages"] for request in remote.requests]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(sent))
    calls = [m for m in state["messages"] if isinstance(m, AIMessage) and m.tool_calls]
    assert calls[0].tool_calls[0]["args"] == {"name": "Mirela Tamburi"}


def chained(error):
    """An exception and all that it is shown with."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", [KeyError, ValueError, dp.ParameterError])
def test_what_a_tool_raises_reaches_no_caller_with_originals(kind, waits, remote):
    @tool
    def look_up(name: str) -> str:
        """Look up."""
        raise kind("expected a name") from LookupError(f"no record of {name}")

    failure = failed_call(remote, look_up, waits, tools=["look_up"])
    assert isinstance(failure, dp.DPMiddlewareError)
    assert not any("Mirela" in repr(error) for error in chained(failure))
    if kind is not dp.ParameterError:  # ours hold no text, so they stay what they are
        expected = f"the tool 'look_up' failed with {kind.__name__}; it was called with originals"
        assert str(failure) == expected


@pytest.mark.parametrize("waits", [False, True])
def test_a_tool_with_originals_may_interrupt_its_run(waits, remote):
    graphs = pytest.importorskip("langgraph.types")
    checkpoints = pytest.importorskip("langgraph.checkpoint.memory")

    @tool
    def look_up(name: str) -> str:
        """Look up."""
        return graphs.interrupt("May it?")

    saver = checkpoints.InMemorySaver()
    state = looking_up(remote, look_up, waits, saver=saver, tools=["look_up"])
    assert [each.value for each in state["__interrupt__"]] == ["May it?"]


def failed_call(remote, look_up, waits, **options):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        looking_up(remote, look_up, waits, **options)
    return caught.value


def looking_up(remote, look_up, waits, **options):
    """An agent that is asked about a person and calls the tool with the name."""
    remote.reply = lambda request: [
        ToolCall(name="look_up", arguments={"name": request["messages"][-1]["content"][:-1]})
    ]
    agent = agent_on(remote, pseudonyms(), look_up, **options)
    given = {"messages": [("user", "Mirela Tamburi?")]}
    config = {"configurable": {"thread_id": "t"}}
    with untraced():
        if waits:
            return asyncio.run(agent.ainvoke(given, config))
        return agent.invoke(given, config)


@pytest.mark.parametrize("ask", [lambda c, x: c.invoke(x), lambda c, x: sum_of(c.stream(x))])
def test_a_shown_answer_is_not_noted_as_remote_words(ask, remote):
    session, question = pseudonyms(), [("user", "I am Mirela Tamburi.")]
    remote.mode = "echo"
    shown = ask(PrivateHead(session) | langchain_model(remote.url), question)
    with pytest.raises(dp.ParameterError, match='answers="note"'):
        note_answer(session, shown)


def sum_of(pieces):
    first, *rest = pieces
    return sum(rest, first)


def test_all_private_values_of_an_input_are_one_request(remote):
    head = PrivateHead(pseudonyms(), keys=["q", "history"])
    chain = head | (lambda d: [*d["history"], ("user", d["q"])]) | langchain_model(remote.url)
    remote.reply = lambda request: " and ".join(m["content"] for m in request["messages"])
    history = [("user", "Mirela Tamburi lives in Berlin.")]
    answer = chain.invoke({"q": "Does Tamburi pay $12,500.00?", "history": history})
    assert answer.text == "Mirela Tamburi lives in Berlin. and Does Tamburi pay $12,500.00?"
    assert len(answer.response_metadata["dp"]["released"]) == 2


@pytest.mark.parametrize("handled", [True, False])
def test_what_a_tool_raises_reaches_no_model_with_originals(handled, remote):
    @tool
    def book(days: int) -> str:
        """Book."""
        raise ValueError("no")

    name = {}

    def calls(request):
        said = request["messages"][-1]
        if said["role"] == "tool":
            return "done"
        name["sent"] = said["content"].split(" for ")[1]
        return [ToolCall(name="book", arguments={"days": name["sent"]})]

    remote.reply = calls
    agent = agent_on(remote, pseudonyms(), book, tools=["book"] if handled else ())
    with untraced():
        state = agent.invoke({"messages": [("user", "Book for Mirela Tamburi")]})
    *_, failed, _ = state["messages"]
    assert failed.status == "error"
    assert ("Mirela Tamburi" in failed.content) is handled
    assert len(remote.requests) == 2


def test_a_structured_response_has_the_originals(remote, caplog):
    strategies = pytest.importorskip("langchain.agents.structured_output")
    remote.reply = lambda request: [
        ToolCall(name="Person", arguments={"name": request["messages"][-1]["content"][7:]})
    ]
    agent = agent_on(remote, pseudonyms(), schema=strategies.ToolStrategy(Person))
    with untraced():
        state = agent.invoke({"messages": [("user", "I saw: Mirela Tamburi")]})
    assert state["structured_response"] == Person(name="Mirela Tamburi")
    assert "Mirela Tamburi" in state["messages"][-1].text
    assert not [each for each in caplog.records if each.name.startswith("dp_middleware")]


@pytest.mark.parametrize("kept", [False, True])
def test_a_run_that_another_process_resumes(kept, remote, tmp_path):
    """Without a memo its pseudonyms are lost, and with them who said what."""
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    remote.mode = "echo"

    def said(text):
        options = {"memo": str(tmp_path / "memo.db")} if kept else {}
        session = pseudonyms(key=bytes(32), **options)
        with untraced():
            given = {"messages": [("user", text)]}
            state = agent_on(remote, session, saver=memory).invoke(given, config)
        return state["messages"][-1].text.splitlines()[-1]

    assert said("I am Mirela Tamburi.").endswith("I am Mirela Tamburi.")
    if kept:
        assert said("Where is Tamburi?").endswith("Where is Tamburi?")
        before, after = [[m["content"] for m in r["messages"]] for r in remote.requests]
        assert after[:1] == before
    else:
        with pytest.raises(dp.EventRefused):
            said("Where is Tamburi?")
        assert len(remote.requests) == 1
