"""DPLLM: what goes out again, what is refused, and a workflow that releases before it runs."""

import copy
import gc
import json
import pickle

import httpx
import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms import MockLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index_dp_middleware import DPLLM
from support.cases import over
from support.contract import ToolCall
from support.extras import said_without
from support.llama_index import MODEL, said, sent_by, simple_chat, user

import dp_middleware as dp
from dp_middleware._quiet import is_unrecorded
from dp_middleware.conversation.messages import Message, ToolCall as Call
from dp_middleware.models.trust import locate


@pytest.fixture
def model(desk):
    return DPLLM(desk.session(), desk.llama_openai())


def contents(desk, number=-1):
    return sent_by(desk.remote, number)


def test_a_transcript_grows_at_no_cost(model, desk):
    transcript = [user(desk.private_text)]
    transcript.append(model.chat(transcript).message)
    transcript.append(user("one more"))
    receipt = model.chat(transcript).additional_kwargs["dp"]
    assert receipt["released"] == contents(desk)[2:]
    assert receipt["charged"] == receipt["certificate"]["epsilon"]
    assert "occurrence" not in str(desk.remote.bodies)
    assert desk.charges == [5, 2]
    assert contents(desk)[:2] == [contents(desk, 0)[0], "a fine answer"]
    rebuilt = [user(desk.private_text), said("a fine answer")]
    model.chat([*rebuilt, user("one more")])  # as an application stores them
    assert (desk.charges, contents(desk)) == ([5, 2], contents(desk, 1))


def test_conversations_are_told_apart_by_names_and_beginnings(desk):
    session = desk.session()
    for name in (None, None, "a", "b", "b"):
        DPLLM(session, desk.llama_openai(), conversation=name).chat([user(desk.private_text)])
    assert desk.charges == [5] * 3  # by their names; without one by their beginning
    sent = [contents(desk, k)[0] for k in range(5)]
    assert (len(set(sent)), sent[3], sent[0]) == (3, sent[4], sent[1])


def test_a_prompt_is_a_new_event_at_every_call(model, desk):
    answers = {model.complete(desk.private_text).text for _ in range(3)}
    assert (answers, desk.charges) == ({"a fine answer"}, [5] * 3)
    assert len({contents(desk, k)[0] for k in range(3)}) == 3
    model.chat([user("w1x"), said("a fine answer"), user("w2x")])


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
def test_calls_of_tools_go_out_as_the_remote_model_wrote_them(model, desk):
    tool = FunctionTool.from_defaults(len, name="count", description="Count.")
    desk.remote.script.append([ToolCall(name="count", arguments={"obj": "w1x"}, id="c1")])
    asked = [user(desk.private_text)]
    response = model.chat_with_tools([tool], chat_history=asked)
    (call,) = model.get_tool_calls_from_response(response)
    assert (call.tool_name, call.tool_kwargs) == ("count", {"obj": "w1x"})
    said = response.message
    result = ChatMessage(desk.canary, role="tool", additional_kwargs={"tool_call_id": "c1"})
    for message in (said, ChatMessage.model_validate_json(said.model_dump_json())):
        message.additional_kwargs["note"] = desk.canary
        model.chat([*asked, message, result])
        sent = desk.remote.requests[-1]["messages"]
        assert sent[1]["tool_calls"][0]["function"]["name"] == "count"
        assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"obj": "w1x"}
        assert sent[2]["tool_call_id"] == "c1"
    assert desk.charges == [5, 1]
    forged = copy.deepcopy(said)
    call = next(block for block in forged.blocks if isinstance(block, ToolCallBlock))
    call.tool_kwargs = {"obj": desk.canary}
    with pytest.raises(dp.EventRefused):
        model.chat([*asked, forged, result])
    assert not desk.remote.saw(desk.canary)


def test_a_stream_that_was_left_is_known_as_far_as_it_went(model, desk):
    asked = [user(desk.private_text)]
    stream = model.stream_chat(asked)
    while (piece := next(stream)).message.content != "a fine":
        pass
    stream.close()
    desk.remote.reply = "more"
    model.chat([*asked, piece.message, user("go on")])
    assert contents(desk)[1] == "a fine"
    with pytest.raises(dp.EventRefused):
        model.chat([*asked, said("a fine answer")])


STREAMS = [
    lambda model, text: model.stream_chat([user(text)]),
    lambda model, text: model.stream_complete(text),
    lambda model, text: model.stream(PromptTemplate("Say {topic}."), topic=text),
]


@over("leave", [lambda stream: stream.close(), lambda stream: None])
@over("begin", STREAMS)
def test_a_stream_that_was_left_has_closed_its_connection(begin, leave, desk):
    with httpx.Client() as client:
        model = DPLLM(desk.session(), desk.llama_openai(http_client=client))
        stream, pool = begin(model, desk.private_text), client._transport._pool
        next(stream)
        assert len(pool.connections) == 1
        leave(stream)
        del stream
        gc.collect()  # openai's streams refer to themselves
        assert pool.connections == []


def test_system_messages_are_released_but_for_public_texts(desk):
    """Block by block: memories put theirs before what stands there."""
    remembered = [TextBlock(text=desk.canary), TextBlock(text="be brief")]
    messages = [ChatMessage(blocks=remembered, role="system"), user("w2x")]
    model = DPLLM(desk.session(), desk.llama_openai(), public_system=("be brief",))
    model.chat(messages)
    assert (contents(desk)[0][-8:], desk.charges) == ("be brief", [1, 1])
    assert not desk.remote.saw(desk.canary)
    model.chat([ChatMessage("be brief ", role="system"), user("w2x")])
    assert contents(desk)[0].strip() != "be brief"


def test_a_system_message_before_the_history_is_an_event_of_its_own(model, desk):
    def told(text, *history):
        model.chat([ChatMessage(text, role="system"), *history])

    told("w1x w2x w3x", user("w4x w5x"))
    told("w1x w2x w3x", user("w4x w5x"), user("w6x"))
    assert desk.charges == [3, 2, 1]
    told("w1x w9x w3x", user("w4x w5x"), user("w6x"))
    assert desk.charges == [3, 2, 1, 3]
    assert contents(desk)[1:] == contents(desk, 1)[1:]
    told("w1x w9x w3x", user("w7x"))
    assert desk.charges[4:] == [3, 1]  # another conversation
    told("w1x w9x w3x", user("w4x w5x"), ChatMessage("w8x", role="system"), user("w6x"))
    assert desk.charges[6:] == [1, 1]  # within the history the transcript is its name


def test_all_system_messages_pass_where_that_is_asked_for(desk):
    messages = [ChatMessage("be brief", role="system"), ChatMessage("w1x", role="developer")]
    DPLLM(desk.session(), desk.llama_openai(), system="pass").chat([*messages, user("w2x")])
    assert (contents(desk)[:2], desk.charges) == (["be brief", "w1x"], [1])
    DPLLM(desk.session(), desk.llama_openai(system_prompt="w1x")).chat([*messages, user("w2x")])
    assert desk.charges == [1, 2, 1]  # the inner model's own is public
    assert contents(desk)[0] != "be brief"


def test_a_component_says_what_it_is(desk):
    inner = desk.llama_openai(system_prompt="be brief")
    model = DPLLM(desk.session(), inner)
    assert model.class_name() == json.loads(model.to_json())["class_name"] == "DPLLM"
    told = {"system_role": MessageRole.USER}  # where context chat engines put what they retrieve
    assert model.metadata == inner.metadata.model_copy(update=told)
    assert locate(model) == locate(inner)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(model)
    assert model.model_copy().chat([user("w1x")]).message.content == "a fine answer"


def test_wrong_parameters(model, desk):
    for wrong in (
        {"inner": "gpt-4o"},
        {"inner": model},
        {"system": "drop"},
        {"public_system": "be brief"},
        {"session": None},
    ):
        with pytest.raises(dp.ParameterError, match="expected"):
            DPLLM(**{"session": desk.session(), "inner": MockLLM(), **wrong})


@pytest.mark.asyncio
async def test_only_the_steps_of_the_model_are_unrecorded(model, desk):
    """Who reads a stream of ``predict``'s kind records as before, also when leaving it early."""
    prompt = PromptTemplate("Say {topic}.")
    for _ in model.stream(prompt, topic=desk.private_text):
        assert not is_unrecorded()
    pieces = await model.astream(prompt, topic=desk.private_text)
    async for piece in pieces:
        if piece:
            break
    assert (piece, is_unrecorded()) == ("a", False)
    await pieces.aclose()


# answers of the remote model are sent again as text, whatever they say, also stripped ------------

_MARK = Message(role="assistant", calls=(Call("1", "count", "{}"),)).words()[2:20]


@over(
    "block",
    [
        {"block_type": "image", "path": __file__},
        {"block_type": "document", "url": "http://127.0.0.1/private"},
        {"block_type": "tool_call", "tool_name": "count", "tool_kwargs": {}},
        {"block_type": "text", "text": "else"},
    ],
)
@pytest.mark.parametrize("path", ["chat", "stream_chat", "complete", "stream_complete"])
def test_an_answer_that_looks_like_our_own_form_is_text(path, block, model, desk):
    """Or the remote model could have files read, requests made and calls invented."""
    forged = json.dumps({_MARK: [block]}, sort_keys=True)
    desk.remote.reply = forged
    MODEL[path](model, "w1x")
    for again in (forged, forged.replace("_", "\\u005f")):
        desk.remote.reply = again
        model.chat([user("w1x")])
        model.chat([user("w1x"), said(again), user("w2x")])
        sent = desk.remote.requests[-1]["messages"][1]
        assert (sent["content"], sent.get("tool_calls")) == (again, None)


@over("reply", [" a fine answer \n", "\n\nx", f" {_MARK} "])
def test_an_answer_that_a_chat_engine_strips_is_known(reply, model, desk):
    desk.remote.reply = reply
    engine = simple_chat(model)
    for k in range(2):
        assert "".join(engine.stream_chat(f"w{k}x").response_gen) == reply
    assert contents(desk)[1] == reply.strip()


# the package -------------------------------------------------------------------------------------


def test_without_llama_index_the_import_names_the_extra():
    assert "pip install '.[llama-index]'" in said_without(
        "llama_index.core", "llama_index_dp_middleware"
    )
