"""Histories as chat clients keep them: plain dicts, without ids, sent whole at every turn."""

import pytest
from support.langchain import MODELS, infer

import dp_middleware as dp

TURNS = 3


def openai(role, text):
    return {"role": role, "content": text}


def gradio(role, text):
    """As ``gr.ChatInterface(type="messages")`` hands it over."""
    return {"role": role, "content": text, "metadata": None, "options": None}


def yes_sayer(probe):
    return infer(probe, extractor=dp.chat_model(lambda messages: "yes", local=True))


ADAPTERS = {**MODELS, "equal extracted answers": yes_sayer}


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
