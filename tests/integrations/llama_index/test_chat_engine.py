"""DPChatEngine: turns of a conversation, asked in released words and answered from the raw ones."""

from __future__ import annotations

import copy
import pickle

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core.schema import TextNode
from llama_index_dp_middleware import DPChatEngine, unrecorded
from support.contract import TraceSafeContract
from support.llama_index import CHAT, index_of, said, simple_chat

import dp_middleware as dp

TURNS = 3


def raw_index(probe):
    text = f"note says {probe.private_text}"
    with unrecorded():
        return index_of(TextNode(text=text, metadata={"author": probe.canary})).as_retriever()


def engine_of(probe, session=None, **options):
    inner = simple_chat(probe.llama_openai(), system_prompt="be brief")
    options = {"extractor": probe.extractor, **options}
    return DPChatEngine(session or probe.session(), inner, **options)


def _turns(path):
    return lambda e, p: [CHAT[path](e, p.new_text()) for _ in range(2)]


class TestContract(TraceSafeContract):
    output = "private"
    test_threads_draw_apart = None  # equal first messages of one conversation are one event
    calls = {path: _turns(path) for path in CHAT}  # noqa: RUF012
    refusals = {  # noqa: RUF012
        "unknown answer": lambda e, p: e.chat("x", [said(p.private_text)]),
        "not text": lambda e, p: e.chat({"text": p.private_text}),
    }

    def adapter(self, probe):
        return engine_of(probe)


@pytest.mark.slow
class TestWithARetriever(TestContract):
    calls = {path: TestContract.calls[path] for path in ("chat", "astream_chat")}  # noqa: RUF012

    def adapter(self, probe):
        return engine_of(probe, retriever=raw_index(probe), metadata=["page"])


@pytest.mark.parametrize("path", CHAT)
def test_later_turns_send_what_the_remote_model_said(path, probe):
    engine = engine_of(probe)
    texts = [probe.new_text() for _ in range(TURNS)]
    for turn, text in enumerate(texts):
        probe.remote.reply = f"draft {turn}"
        answer = CHAT[path](engine, text)
        assert text in answer
        assert f"draft {turn}" in answer
    assert len(probe.charges) == TURNS
    sent = [request["messages"] for request in probe.remote.requests]
    drafts = [m["content"] for m in sent[-1] if m["role"] == "assistant"]
    assert drafts == ["draft 0", "draft 1"]
    assert sent[-1][: len(sent[0])] == sent[0]
    shown = [str(message.content) for message in engine.chat_history]
    assert shown[::2] == texts
    assert probe.canary in shown[1]
    assert not probe.leaks()


def test_the_extractor_reads_the_conversation_and_the_raw_nodes(probe):
    engine = engine_of(probe, retriever=raw_index(probe))
    first, second = probe.new_text(), probe.new_text()
    engine.chat(first)
    response = engine.chat(second)
    asked = probe.local.requests[-1]["messages"]
    assert asked[0] == {"role": "user", "content": first}
    assert f"note says {probe.private_text}" in asked[-1]["content"]
    assert response.metadata["remote_text"] == "a fine answer"
    receipt = response.metadata["dp"]
    assert len(receipt["released"]) == 1  # the node was released before the first answer
    assert receipt["charged"] == receipt["certificate"]["epsilon"]
    [source] = response.source_nodes
    assert probe.released(source.node.text)
    assert source.node.text in probe.remote.requests[-1]["messages"][-1]["content"]
    assert len(probe.charges) == 3
    assert not probe.leaks()


@pytest.mark.parametrize("plain", [False, True], ids=["messages", "plain dicts"])
def test_a_history_of_the_engine_goes_on_in_another_process(plain, probe, tmp_path):
    memo = {"memo": tmp_path / "memo.db"}
    first = engine_of(probe, probe.session(**memo), conversation="thread")
    first.chat(probe.new_text())
    history = first.chat_history
    if plain:
        history = [{"role": m.role.value, "content": m.content} for m in history]
    later = engine_of(probe, probe.session(**memo), conversation="thread")
    later.chat(probe.new_text(), history)
    assert len(probe.charges) == 2
    before, after = (request["messages"] for request in probe.remote.requests)
    assert after[: len(before)] == before
    assert after[-2]["content"] == "a fine answer"  # the remote model's own words
    assert not probe.leaks()


def test_equal_answers_to_different_turns_are_different_drafts(probe):
    """The remote model must not learn that two private answers are the same."""
    engine = engine_of(probe, extractor=dp.chat_model(lambda messages: "yes", local=True))
    for turn in range(TURNS):
        probe.remote.reply = f"draft {turn}"
        engine.chat(probe.new_text())
    sent = probe.remote.requests[-1]["messages"]
    assert [m["content"] for m in sent if m["role"] == "assistant"] == ["draft 0", "draft 1"]


def test_a_stream_that_was_left_is_in_the_history_as_far_as_it_was_read(probe):
    engine = engine_of(probe, extractor=probe.llama_openai(probe.local))
    pieces = engine.stream_chat(probe.new_text()).response_gen
    begun = next(pieces)
    pieces.close()
    del pieces
    engine.chat(probe.new_text())
    assert engine.chat_history[1].content == begun
    [answer] = [m for m in probe.remote.requests[-1]["messages"] if m["role"] == "assistant"]
    assert answer["content"] == "a fine answer"
    assert not probe.leaks()


def test_a_failed_turn_is_paid_once_and_reset_begins_anew(probe):
    engine, text = engine_of(probe), probe.new_text()
    probe.local.mode = "error"
    with pytest.raises(dp.DPMiddlewareError):
        engine.chat(text)
    assert engine.chat_history == []
    probe.local.mode = "echo"
    engine.chat(text)
    assert len(probe.charges) == 1
    engine.reset()
    assert engine.chat_history == []
    engine.chat(text)
    assert len(probe.charges) == 2


def test_it_stays_here(probe):
    engine = engine_of(probe)
    engine.chat(probe.new_text())
    assert not probe.secrets_in(repr(engine))
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="stay in its process"):
            leave(engine)
    with pytest.raises(dp.ParameterError, match="chat engine"):
        DPChatEngine(probe.session(), probe.llama_openai(), extractor=probe.extractor)
    with pytest.raises(dp.UntrustedHost):
        engine_of(probe, extractor=dp.chat_model(lambda messages: "x"))
