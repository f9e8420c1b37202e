"""Pseudonyms with LlamaIndex's engines: chats, queries, indexes of released nodes."""

import asyncio
import json

import pytest

pytest.importorskip("faker", reason="the lists of names are of the extra detect")

from llama_index.core.schema import TextNode
from llama_index_dp_middleware import DPLLM, DPQueryEngine, DPTransform
from pydantic import BaseModel
from support.cases import over
from support.contract._llama_index import LlamaIndexRecorder
from support.entities import CONTRACT
from support.llama_index import CHAT, grows, index_of, simple_chat, user
from support.pseudonymous import pseudonyms

import dp_middleware as dp

QUESTIONS = [CONTRACT, "And Mirela Tamburi?", "What of Acme Trading Ltd in Berlin?"]


@over("path", CHAT)
def test_a_chat_over_turns(path, desk, remote):
    remote.bodies.clear()
    engine = simple_chat(DPLLM(pseudonyms(), desk.llama_openai()))
    assert [CHAT[path](engine, text) for text in QUESTIONS] == QUESTIONS
    assert grows(remote)
    texts = [message.content for message in engine.chat_history]
    assert texts[::2] == texts[1::2] == QUESTIONS


def test_an_extractor_reads_the_restored_answer(desk, remote):
    read = []

    def local(messages):
        read.append(str(messages))
        return "extracted"

    extractor = dp.chat_model(local, local=True)
    inner = index_of("public").as_query_engine(llm=desk.llama_openai())
    response = DPQueryEngine(pseudonyms(), inner, extractor=extractor).query("Mirela Tamburi?")
    assert str(response) == "extracted"
    assert [text.count("Mirela Tamburi") for text in read] == [2]
    assert "Mirela Tamburi" not in response.metadata["remote_text"]


ASKED = "Where does Mirela Tamburi live?"


def engine_of(desk, where="local", **options):
    """Around raw nodes, found here, or an index of released ones."""
    session, text = pseudonyms(), "Mirela Tamburi lives in Berlin."
    options = {"llm": desk.llama_openai(), **options}
    if where == "local":
        inner = index_of("public").as_query_engine(**options)
        return DPQueryEngine(session, inner, retriever=index_of(text).as_retriever())
    nodes = DPTransform(session)([TextNode(id_="n", text=text)])
    return DPQueryEngine(session, index_of(*nodes).as_query_engine(**options))


@over("where", ["local", "released"])
def test_answers_to_queries_have_the_originals(where, desk, remote):
    engine = engine_of(desk, where)
    for response in (engine.query(ASKED), asyncio.run(engine.aquery(ASKED))):
        assert "Mirela Tamburi lives in Berlin." in str(response)
        assert ASKED in str(response)
        assert "Mirela Tamburi" not in response.metadata["remote_text"]
        assert "Mirela Tamburi" not in response.source_nodes[0].get_content()
    name = response.source_nodes[0].get_content().split(" lives")[0]
    assert f"Where does {name} live?" in response.metadata["remote_text"]  # one name for both


@pytest.mark.asyncio
async def test_streamed_answers_to_queries_equal_the_whole(desk, remote):
    whole = str(engine_of(desk).query(ASKED))
    engine = engine_of(desk, streaming=True)
    pieces = list(engine.query(ASKED).response_gen)
    response = await engine.aquery(ASKED)
    assert [piece async for piece in response.async_response_gen()] == pieces
    assert "".join(pieces) == whole
    assert len(pieces) > 5


class Person(BaseModel):
    """Somebody."""

    name: str


def test_objects_that_a_query_engine_makes_have_the_originals(desk, remote):
    def reply(request):
        name = str(request["messages"]).split("Where does ")[1].split(" live?")[0]
        return json.dumps({"name": name})

    remote.mode, remote.reply = "ok", reply
    llm = desk.llama_openai().as_structured_llm(Person)
    engine = DPQueryEngine(pseudonyms(), index_of("public").as_query_engine(llm=llm))
    assert engine.query(ASKED).response == Person(name="Mirela Tamburi")


def test_no_span_event_or_callback_holds_an_original(desk, remote):
    recorder, session = LlamaIndexRecorder(), pseudonyms()
    with recorder.recording():
        model = DPLLM(session, desk.llama_openai())
        assert [*model.stream_complete(ASKED)][-1].text == ASKED
        assert model.chat([user(ASKED)]).message.content == ASKED
        inner = index_of("public").as_query_engine(llm=desk.llama_openai(), streaming=True)
        assert ASKED in str(DPQueryEngine(session, inner).query(ASKED))
        held = "".join(recorder.read().values())
    assert "live?" in held
    assert "Mirela Tamburi" not in held
