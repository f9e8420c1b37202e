"""Every kind of chat model behaves the same, and its failures say nothing private."""

import asyncio
import gc
import logging
import re
import traceback
import warnings
from types import SimpleNamespace

import pytest
from llama_index.core.llms import ChatMessage, ChatResponse, MockLLM
from support.cases import over
from support.chat_models import KINDS, langchain_model
from support.loops import Blocking
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import ChatModel, chat_model

QUESTION = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello there"}]
PRIVATE = [{"role": "user", "content": CANARY}]


def ways(model):
    return (
        model,
        lambda messages: asyncio.run(model.acall(messages)),
        lambda messages: "".join(model.stream(messages)),
    )


@over("kind", KINDS)
@over("mode", ["normal", "private"])
def test_calls_streams_and_awaits(kind, mode, make, remote):
    model = make(kind, remote.url)
    model = model.private() if mode == "private" else model
    remote.reply = "one two  three"
    remote.requests.clear()
    for call in (model, *ways(model)):  # a second call on the same connections
        assert call(QUESTION) == "one two  three"
    assert (len(list(model.stream(QUESTION))) > 1) == (kind != "async_openai")
    assert len(remote.requests) == 5
    for request in remote.requests:
        said = [(message["role"], message["content"]) for message in request["messages"]]
        assert said == [("system", "be brief"), ("user", "hello there")]


FAILURES = {
    "error": r"\w+Error \(HTTP 500\)",
    "malformed": r"JSONDecodeError|it answered with no text",  # the latter as a stream
    "empty": "it answered with no text",
    "slow": r"\w+TimeoutError",
}


@over("kind", KINDS)
@over("mode, named", FAILURES.items())
def test_failures_name_their_kind_only(kind, mode, named, make, local, caplog):
    local.mode = mode
    local.raw.clear()
    model = make(kind, local.url, timeout=0.3 if mode == "slow" else 10).private()
    caplog.set_level(logging.DEBUG)
    for call in ways(model):
        with pytest.raises(dp.ChatError) as caught:
            call(PRIVATE)
        told = rf"the chat model \(127\.0\.0\.1\) failed: ({named})"
        assert re.fullmatch(told, str(caught.value))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert local.saw(CANARY)
    assert CANARY not in caplog.text


def test_what_a_function_raises_is_never_quoted():
    class HTTPError(Exception):
        response = SimpleNamespace(status_code=418)

    for raised, told in (
        (HTTPError(CANARY), "HTTPError (HTTP 418)"),
        (dp.ChatError(CANARY), "ChatError"),
        (dp.UntrustedHost(CANARY), "UntrustedHost"),
        (KeyError(CANARY), "KeyError"),
    ):

        def failing(messages, raised=raised):
            raise raised

        with pytest.raises(dp.ChatError) as caught:
            chat_model(failing)(QUESTION)
        assert str(caught.value) == f"the chat model (unknown (failing)) failed: {told}"


def test_functions_sync_and_async():
    def plain(messages):
        return messages[-1]["content"].upper()

    async def slow(messages):
        await asyncio.sleep(0)
        return plain(messages)

    class Callable:
        async def __call__(self, messages):
            return plain(messages)

    async def inside():
        return chat_model(slow)(QUESTION)

    for function in (plain, slow, Callable(), lambda messages: slow(messages)):
        for model in (chat_model(function, local=True), chat_model(function).private()):
            assert [call(QUESTION) for call in ways(model)] == ["HELLO THERE"] * 3
    assert asyncio.run(inside()) == "HELLO THERE"  # within a loop that runs


def test_sync_models_do_not_block_the_event_loop_and_an_interrupt_passes():
    block = Blocking()

    def slow(messages):
        block()
        return "fine"

    def interrupted(messages):
        raise KeyboardInterrupt

    answer = block.beside(chat_model(slow).private().acall(QUESTION))
    assert asyncio.run(answer) == "fine"
    assert block.freed == 1
    with pytest.raises(KeyboardInterrupt):
        chat_model(interrupted).private()(QUESTION)


def test_blocks_are_joined_and_other_answers_refused():
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    def answering(content):
        return chat_model(GenericFakeChatModel(messages=iter([AIMessage(content=content)] * 2)))

    blocks = ["one ", {"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "two"}]
    assert answering(blocks)(QUESTION) == "one two"
    assert answering(blocks).private()(QUESTION) == "one two"
    for content in ("", "  \n", [], [{"type": "reasoning", "reasoning": "hm"}]):
        with pytest.raises(dp.ChatError, match="answered with no text"):
            answering(content)(QUESTION)
    for answer in (None, 3, {"text": CANARY}):
        with pytest.raises(dp.ChatError, match="expected an answer of type str") as caught:
            chat_model(lambda messages, answer=answer: answer)(QUESTION)
        assert CANARY not in str(caught.value)


def test_bound_arguments_reach_the_model_in_both_modes(local):
    bound = langchain_model(local.url).bind(temperature=0.25).bind(seed=7)
    for model in (chat_model(bound), chat_model(bound).private()):
        model(QUESTION)
        list(model.stream(QUESTION))
    assert [(r["temperature"], r["seed"]) for r in local.requests] == [(0.25, 7)] * 4


class FailsToClose(MockLLM):
    def stream_chat(self, messages, **kwargs):
        said = ChatMessage("HELLO", role="assistant")
        try:
            yield ChatResponse(message=said, delta="HELLO")
            yield ChatResponse(message=said, delta="HELLO")
        finally:
            raise ValueError(messages[0].content)


@over("private", [False, True])
def test_what_closing_a_stream_raises_quotes_nothing(private):
    model = chat_model(FailsToClose())
    stream = (model.private() if private else model).stream(PRIVATE)
    next(stream)
    with pytest.raises(dp.ChatError, match="ValueError") as caught:
        stream.close()
    assert PRIVATE[0]["content"] not in "".join(traceback.format_exception(caught.value))


def test_what_is_no_chat_model_is_refused(remote, make):
    import openai
    from langchain_core.runnables import RunnableLambda

    chain = langchain_model(remote.url) | RunnableLambda(lambda message: message)
    for x in (3, "openai:gpt", None, ChatModel, chain, langchain_model(remote.url).with_retry()):
        with pytest.raises(dp.ParameterError, match="expected a LangChain chat model"):
            chat_model(x)
    with openai.OpenAI(api_key="none") as client, pytest.raises(dp.ParameterError, match="model="):
        chat_model(client)
    with pytest.raises(dp.ParameterError, match="openai client only"):
        chat_model(lambda messages: "x", "gpt")
    model = make("openai", remote.url)
    assert chat_model(model) is model


@over("messages", [[], CANARY, [CANARY], [{"role": "tool", "content": CANARY}], [{"role": "user"}]])
def test_malformed_messages_are_refused_without_quoting_them(messages):
    with pytest.raises(dp.ParameterError) as caught:
        chat_model(lambda messages: "x")(messages)
    assert CANARY not in str(caught.value)


def test_an_abandoned_stream_closes_the_connection(make, local):
    local.reply = "many words " * 100
    for kind in {*KINDS} - {"async_openai"}:  # whose answer is one piece
        stream = make(kind, local.url).private().stream(QUESTION)
        assert next(stream) == "many"
        stream.close()  # an unclosed connection would be a ResourceWarning, hence an error
        with warnings.catch_warnings():
            if kind == "llama_index":  # it holds openai's stream, which refers to itself
                warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
