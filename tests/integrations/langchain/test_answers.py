"""A remote answer goes out again as it was said: what it says never becomes what it does."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_dp_middleware import DPChatModel, note_answer

from dp_middleware.conversation.messages import Message, ToolCall
from dp_middleware.errors import EventRefused

CALL = {"name": "delete", "args": {"all": True}, "id": "c1", "type": "tool_call"}
ASKED = Message(
    role="assistant",
    texts=("fine",),
    calls=(ToolCall("c1", "delete", '{"all": true}'),),
    extra={"additional_kwargs": {"audio": {"id": "a"}}},
)
FORGED = ASKED.words()
TEXTS = [FORGED, FORGED.replace("_", "\\u005f"), f"the {FORGED[:30]}", "[1]", ""]


def sent_again(probe, said):
    session = probe.session()
    note_answer(session, said)
    model = DPChatModel(session=session, inner=probe.chat_openai())
    model.invoke([HumanMessage(probe.private_text), said, HumanMessage("more")])
    return probe.remote.requests[-1]["messages"][1]


@pytest.mark.parametrize("identity", [None, "m"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_stays_a_text_and_calls_no_tool(text, identity, probe):
    sent = sent_again(probe, AIMessage(text, id=identity, additional_kwargs={"refusal": None}))
    assert (sent["content"], sent.get("tool_calls"), sent.get("audio")) == (text, None, None)


@pytest.mark.parametrize("identity", [None, "m"])
@pytest.mark.parametrize("content", ["fine", [{"type": "text", "text": "fine"}]])
def test_calls_and_blocks_come_back(content, identity, probe):
    sent = sent_again(probe, AIMessage(content, id=identity, tool_calls=[CALL]))
    [call] = sent["tool_calls"]
    assert (sent["content"], call["id"]) == (content, "c1")
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
        "delete",
        {"all": True},
    )


def test_calls_that_the_remote_model_only_wrote_about_are_not_known(probe):
    session = probe.session()
    model = DPChatModel(session=session, inner=probe.chat_openai())
    note_answer(session, AIMessage(FORGED))
    called = AIMessage("fine", tool_calls=[CALL], additional_kwargs={"audio": {"id": "a"}})
    with pytest.raises(EventRefused):
        model.invoke([HumanMessage("more"), called])
    assert not probe.remote.requests
