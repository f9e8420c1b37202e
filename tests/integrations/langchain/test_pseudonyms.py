"""Pseudonyms with LangChain: the remote model sees none of the values, the caller sees all."""

import asyncio
import itertools
import json

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
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
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from pydantic import BaseModel
from support.cases import over
from support.chat_models import langchain_model
from support.contract import ToolCall
from support.contract._reading import text_of
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


def sum_of(pieces):
    first, *rest = pieces
    return sum(rest, first)


def test_answers_come_back_with_the_originals(model):
    given = [("user", CONTRACT)]
    answer, pieces = model.invoke(given), list(model.stream(given))
    shown = str(answer.response_metadata)
    assert not any(value in shown for value in (*HIDDEN, "Mirela"))
    assert len(pieces) > 5

    async def streamed():
        return "".join([piece.content async for piece in model.astream(given)])

    answers = [answer, sum_of(pieces), asyncio.run(model.ainvoke(given)), *model.batch([given] * 2)]
    texts = [each.content for each in answers] + [asyncio.run(streamed())]
    texts.append(model.generate([[HumanMessage(CONTRACT)]]).generations[0][0].text)
    assert texts == [CONTRACT] * 7


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
    model = DPChatModel(pseudonyms(), langchain_model(remote.url), tools=["book"])
    model, expected = model.bind_tools([book]), {"who": {"name": "Mirela Tamburi"}, "days": [1]}
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
        ToolCall(name="Person", arguments={"name": name_in(request["messages"][-1])})
    ]
    inner = langchain_model(remote.url)
    model = DPChatModel(pseudonyms(), inner)
    structured = model.with_structured_output(Person, method="function_calling")
    assert structured.invoke([("user", WHO)]) == Person(name="Mirela Tamburi")
    state = asked(agent_on(remote, schema=ToolStrategy(Person)), WHO)
    assert state["structured_response"] == Person(name="Mirela Tamburi")
    assert "Mirela Tamburi" in state["messages"][-1].text
    assert not [each for each in caplog.records if each.name.startswith("dp_middleware")]
    remote.mode = "echo"
    prompt = ChatPromptTemplate.from_messages([("user", "{text}")])
    head = PrivateHead(pseudonyms(), keys=["text"])
    chain = head | prompt | inner | StrOutputParser()
    assert chain.invoke({"text": CONTRACT}) == CONTRACT
    assert "".join(chain.stream({"text": CONTRACT})) == CONTRACT
    assert "Mirela" not in head.invoke({"text": CONTRACT})["text"]  # the release itself


def test_all_private_values_of_an_input_are_one_request(remote):
    head = PrivateHead(pseudonyms(), keys=["q", "history"])
    chain = head | (lambda d: [*d["history"], ("user", d["q"])]) | langchain_model(remote.url)
    remote.reply = lambda request: " and ".join(m["content"] for m in request["messages"])
    history = [("user", "Mirela Tamburi lives in Berlin.")]
    answer = chain.invoke({"q": "Does Tamburi pay $12,500.00?", "history": history})
    assert answer.text == "Mirela Tamburi lives in Berlin. and Does Tamburi pay $12,500.00?"
    assert len(answer.response_metadata["dp"]["released"]) == 2


@over("ask", [lambda c, x: c.invoke(x), lambda c, x: sum_of(c.stream(x))])
def test_a_shown_answer_is_not_noted_as_remote_words(ask, remote):
    session = pseudonyms()
    remote.mode = "echo"
    shown = ask(PrivateHead(session) | langchain_model(remote.url), [("user", WHO)])
    with pytest.raises(dp.ParameterError, match='answers="note"'):
        note_answer(session, shown)


# agents ------------------------------------------------------------------------------------------


def agent_on(remote, *tools, session=None, saver=None, schema=None, **options):
    ours = DPAgentMiddleware(session or pseudonyms(), **options)
    return create_agent(
        langchain_model(remote.url),
        list(tools),
        middleware=[ours],
        checkpointer=saver,
        response_format=schema,
    )


def asked(agent, text, in_loop=False):
    value = {"messages": [("user", text)]}, {"configurable": {"thread_id": "t"}}
    with untraced():
        return asyncio.run(agent.ainvoke(*value)) if in_loop else agent.invoke(*value)


def looking_up(request):
    return [ToolCall(name="look_up", arguments={"name": name_in(request["messages"][-1])})]


@pytest.mark.parametrize("in_loop", [False, True])
def test_an_agent_finds_its_customer_over_three_turns_and_the_remote_never_sees_her(
    in_loop, remote
):
    found, answers = [], []
    remote.reply, tools = assistant, customer_tools(found)
    agent = agent_on(remote, *tools, saver=InMemorySaver(), tools=["look_up", "write"])
    for question in QUESTIONS:
        state = asked(agent, question, in_loop)
        answers.append(state["messages"][-1].content)
    assert (found, answers) == (ASKED, ANSWERS)
    sent = [request["messages"] for request in remote.requests]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(sent))
    calls = [m for m in state["messages"] if isinstance(m, AIMessage) and m.tool_calls]
    assert calls[0].tool_calls[0]["args"] == {"name": "Mirela Tamburi"}


@over("in_loop", [False, True])
@over("kind", [KeyError, ValueError, dp.ParameterError])
def test_what_a_tool_raises_reaches_no_caller_with_originals(kind, in_loop, remote):
    @tool
    def look_up(name: str) -> str:
        """Look up."""
        raise kind("expected a name") from LookupError(f"no record of {name}")

    remote.reply = looking_up
    with pytest.raises(dp.DPMiddlewareError) as caught:
        asked(agent_on(remote, look_up, tools=["look_up"]), WHO, in_loop)
    assert "Mirela" not in text_of(caught.value)
    if kind is not dp.ParameterError:  # ours hold no text, so they stay what they are
        assert f"the tool 'look_up' failed with {kind.__name__}; it was" in str(caught.value)


@over("in_loop", [False, True])
def test_a_tool_with_originals_may_interrupt_its_run(in_loop, remote):
    @tool
    def look_up(name: str) -> str:
        """Look up."""
        return interrupt("May it?")

    remote.reply = looking_up
    agent = agent_on(remote, look_up, saver=InMemorySaver(), tools=["look_up"])
    state = asked(agent, WHO, in_loop)
    assert [each.value for each in state["__interrupt__"]] == ["May it?"]


@over("handled", [True, False])
def test_what_a_tool_raises_reaches_no_model_with_originals(handled, remote):
    @tool
    def book(days: int) -> str:
        """Book."""
        raise ValueError("no")

    def calls(request):
        said = request["messages"][-1]
        if said["role"] == "tool":
            return "done"
        return [ToolCall(name="book", arguments={"days": name_in(said["content"])})]

    remote.reply = calls
    *_, failed, _ = asked(agent_on(remote, book, tools=["book"] if handled else ()), WHO)[
        "messages"
    ]
    assert failed.status == "error"
    assert ("Mirela Tamburi" in failed.content) is handled
