"""Pseudonyms with LlamaIndex's models: the remote one sees none of the values, the caller all."""

import itertools
import json

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index_dp_middleware import DPLLM, unrecorded
from pydantic import BaseModel
from support.cases import over
from support.contract import ToolCall
from support.entities import CONTRACT
from support.llama_index import MODEL, grows, said, sent_by, told, user
from support.pseudonymous import (
    ANSWERS,
    ASKED,
    QUESTIONS,
    assistant,
    customer_in,
    customer_tools,
    pseudonyms,
)

from dp_middleware.conversation.messages import Message


@pytest.fixture
def model(desk, remote):
    return DPLLM(pseudonyms(), desk.llama_openai(), tools="all")


@over("path", MODEL)
def test_answers_come_back_with_the_originals(path, model, remote):
    """Streams equal the whole, and all that is shown has the receipt."""
    shown = MODEL[path](model, CONTRACT)
    assert told(shown[-1]) == CONTRACT
    assert all(piece.additional_kwargs["dp"]["released"] == sent_by(remote) for piece in shown)
    if "stream" in path:
        so_far = list(itertools.accumulate(piece.delta or "" for piece in shown))
        assert len(shown) > 5
        assert list(map(told, shown)) == so_far


class Thinking(MockLLM):
    """Thinks and says the same, the pseudonym in two parts, and thinks no more at the end."""

    def stream_chat(self, messages, **kwargs):
        text, said = messages[-1].content, ""
        for delta in (text[:2], text[2:], ""):
            said += delta
            blocks = [ThinkingBlock(content=said), TextBlock(text=said)]
            message = ChatMessage(role="assistant", blocks=blocks)
            more = {"thinking_delta": delta} if delta else {}
            yield ChatResponse(message=message, delta=delta, additional_kwargs=more)


def test_thoughts_are_restored_in_the_pieces_too():
    pieces = list(DPLLM(pseudonyms(), Thinking()).stream_chat([user("Mirela Tamburi")]))
    thoughts = "".join(p.additional_kwargs.get("thinking_delta", "") for p in pieces)
    thought, text = pieces[-1].message.blocks
    assert (thoughts, thought.content, text.text) == ("Mirela Tamburi",) * 3
    assert pieces[0].message.content == ""


@over("left", [False, True])
def test_a_shown_answer_is_sent_again_as_the_remote_model_wrote_it(left, model, remote):
    """Also stripped, left half-way, and behind another beginning."""
    question = user(" Mirela Tamburi of Acme Trading Ltd ")
    session = model._session
    pieces = model.stream_chat([question])
    read = [next(p for p in pieces if "Tamburi" in p.message.content)] if left else list(pieces)
    pieces.close()
    [sent], shown = remote.requests[-1]["messages"], read[-1].message
    for message in (shown, said(shown.content.strip())):
        for before in ([question], [user("What of Berlin?"), question], []):
            model.chat([*before, message, user("And Mirela?")])
            again = remote.requests[-1]["messages"][len(before)]["content"]
            assert again in sent["content"]
            way_back = session.exchange([Message(role="user", texts=(question.content,))])
            assert way_back.restore(again) == message.content


QUOTED = 'Mirela "Mo" Tamburi'


def test_calls_of_tools_have_the_originals_in_json(desk, remote):
    def calls(request):
        arguments = {"who": {"name": request["messages"][0]["content"]}, "days": 2}
        return [ToolCall(name="book", arguments=arguments)]

    def book(who: dict, days: int) -> str:
        """Book."""
        return ""

    remote.mode, remote.reply = "ok", calls
    model = DPLLM(pseudonyms({QUOTED: "person"}), desk.llama_openai(), tools="all")
    tools, expected = [FunctionTool.from_defaults(book)], {"who": {"name": QUOTED}, "days": 2}
    pieces = list(model.stream_chat_with_tools(tools, user_msg=QUOTED))
    for piece in pieces:
        for call in model.get_tool_calls_from_response(piece, error_on_no_tool_call=False):
            assert QUOTED.startswith(call.tool_kwargs.get("who", {}).get("name", ""))
    for response in (model.chat_with_tools(tools, user_msg=QUOTED), pieces[-1]):
        [call] = model.get_tool_calls_from_response(response)
        [block] = [b for b in response.message.blocks if isinstance(b, ToolCallBlock)]
        kept = response.message.additional_kwargs.get("tool_calls", [])
        assert call.tool_kwargs == json.loads(block.tool_kwargs) == expected
        assert all(json.loads(one.function.arguments) == expected for one in kept)
        history = [user(QUOTED), response.message, ChatMessage("done", role="tool")]
        history[-1].additional_kwargs["tool_call_id"] = block.tool_call_id
        model.chat(history)
        [again] = remote.requests[-1]["messages"][1]["tool_calls"]
        assert json.loads(again["function"]["arguments"]) == calls(remote.requests[-1])[0].arguments
    assert kept


class Person(BaseModel):
    """Somebody."""

    name: str


@pytest.mark.filterwarnings("ignore:The `json` method:DeprecationWarning")  # LlamaIndex's own
def test_structured_output_has_the_originals(model, remote):
    def reply(request):
        found = {"name": customer_in(request)}
        is_text = "response_format" in request
        return json.dumps(found) if is_text else [ToolCall(name="Person", arguments=found)]

    remote.mode, remote.reply = "ok", reply
    prompt, expected = PromptTemplate("our customer {name}"), Person(name="Mirela Tamburi")
    structured = model.as_structured_llm(Person)
    asked = [user("our customer Mirela Tamburi")]
    *_, last = model.stream_structured_predict(Person, prompt, name="Mirela Tamburi")
    assert last == model.structured_predict(Person, prompt, name="Mirela Tamburi") == expected
    *_, piece = structured.stream_chat(asked)
    for response in (structured.chat(asked), piece, structured.complete(asked[0].content)):
        assert response.raw == expected
        text = response.message.content if isinstance(response, ChatResponse) else response.text
        assert Person.model_validate_json(text) == expected


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
@pytest.mark.asyncio
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
async def test_an_agent_finds_its_customer_over_three_turns(streaming, model, remote):
    """And the remote model never sees her."""
    asked = []
    remote.mode, remote.reply = "ok", assistant
    agent = FunctionAgent(tools=customer_tools(asked), llm=model, streaming=streaming)
    memory = Memory.from_defaults(session_id="s", token_limit=100_000)
    with unrecorded():
        answers = [str(await agent.run(user_msg=text, memory=memory)) for text in QUESTIONS]
    assert (asked, answers) == (ASKED, ANSWERS)
    assert grows(remote)
