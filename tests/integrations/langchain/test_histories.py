"""Histories as chat clients keep them: plain dicts, without ids, sent whole at every turn."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_openai")

from langchain_dp_middleware import DPChatModel, InferDPTChatModel, PrivateHead

import dp_middleware as dp
from dp_middleware.errors import EventRefused

TURNS = 3


def openai(role, text):
    return {"role": role, "content": text}


def gradio(role, text):
    """As ``gr.ChatInterface(type="messages")`` hands it over."""
    return {"role": role, "content": text, "metadata": None, "options": None}


def parts(role, text):
    return {"role": role, "content": [{"type": "text", "text": text}]}


def extracting(probe):
    return InferDPTChatModel(probe.session(), remote=probe.chat_openai(), extractor=probe.extractor)


def yes_sayer(probe):
    local = dp.chat_model(lambda messages: "yes", local=True)
    return InferDPTChatModel(probe.session(), remote=probe.chat_openai(), extractor=local)


ADAPTERS = {
    "chat model": lambda p: DPChatModel(p.session(), p.chat_openai()),
    "head": lambda p: PrivateHead(p.session(), answers="note") | p.chat_openai(),
    "extraction": extracting,
    "equal extracted answers": yes_sayer,
}


def stream(model, history):
    return "".join(str(chunk.text) for chunk in model.stream(history))


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("client", [openai, gradio])
@pytest.mark.parametrize("ask", [lambda m, h: m.invoke(h).text, stream])
def test_a_conversation_without_ids(adapter, client, ask, probe):
    model, history = ADAPTERS[adapter](probe), []
    for turn in range(TURNS):
        probe.remote.reply = f"draft {turn}"
        history.append(client("user", probe.new_text()))
        history.append(client("assistant", str(ask(model, list(history)))))
    assert len(probe.charges) == TURNS
    sent = [request["messages"] for request in probe.remote.requests]
    assert [m["content"] for m in sent[-1] if m["role"] == "assistant"] == ["draft 0", "draft 1"]
    if adapter in ("chat model", "head"):
        assert sent[-1][: len(sent[0])] == sent[0]
    assert not probe.leaks()


def test_blocks_without_ids(probe):
    model = DPChatModel(probe.session(), probe.chat_openai())
    history = [parts("user", probe.private_text)]
    history.append(openai("assistant", model.invoke(history).text))
    model.invoke([*history, parts("user", probe.private_text)])
    assert len(probe.charges) == 2
    assert not probe.leaks()


def test_an_extracted_answer_in_another_place_or_in_other_words_is_refused(probe):
    model = extracting(probe)
    question = openai("user", probe.private_text)
    answer = openai("assistant", model.invoke([question]).text)
    more = openai("user", "more")
    for history in (
        [question, more, answer, more],
        [openai("user", probe.new_text()), answer, more],
        [question, openai("assistant", answer["content"] + "!"), more],
    ):
        with pytest.raises(EventRefused):
            model.invoke(history)
    with pytest.raises(EventRefused):
        model.invoke([question, answer, more], {"configurable": {"thread_id": "other"}})
    assert len(probe.remote.requests) == 1


def test_a_stream_that_was_left_may_be_sent_as_far_as_it_was_read(probe):
    local = probe.chat_openai(probe.local)
    model = InferDPTChatModel(probe.session(), remote=probe.chat_openai(), extractor=local)
    question = openai("user", probe.new_text())
    pieces = model.stream([question])
    begun = str(next(pieces).text)
    pieces.close()
    model.invoke([question, openai("assistant", begun), openai("user", probe.new_text())])
    assert probe.remote.requests[-1]["messages"][1]["content"] == "a fine answer"
    assert not probe.leaks()
