"""PrivateHead and DPSanitizer: nothing that LangChain can record holds the raw text."""

import asyncio
import itertools
import json
import re

import langsmith
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompt_values import ChatPromptValue, ImagePromptValue, StringPromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_dp_middleware import DPSanitizer, PrivateHead, note_answer
from support.cases import over
from support.contract import Probe, TraceSafeContract, fallback_calls, runnable_calls
from support.contract._reading import text_of
from support.extras import said_without
from support.langchain import HEARD, SANITIZER
from support.texts import CANARY

from dp_middleware.errors import EventRefused, ParameterError

PRIVATE = f"{CANARY} one two {CANARY} three four"  # no word of it is in the vocabulary
RELEASED = re.compile(r"(?:w\d+x ?)+")
AI_CALL = AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "call-1"}], id="ai-1")
IMAGE = {"type": "image_url", "image_url": {"url": f"https://{CANARY}.example"}}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "public rules"), MessagesPlaceholder("history"), ("human", "{question}")]
)


def is_released(text, words=6):
    return RELEASED.fullmatch(text) is not None and len(text.split()) == words


def private_messages(probe):
    """A canary in every private slot of human and tool messages."""
    canary, text = probe.canary, probe.new_text
    slots = {"additional_kwargs": {canary: canary}, "response_metadata": {"m": canary}}
    blocks = [{"type": "text", "text": text(), "annotations": [canary], "id": canary}, text()]
    public = {"tool_call_id": "call-1", "id": probe.new_id(), "status": "error", "name": "search"}
    return [
        SystemMessage("public rules"),
        HumanMessage(blocks, id=probe.new_id(), note=canary, name=canary, **slots),
        AI_CALL,
        ToolMessage(text(), artifact=canary, **public, **slots),
        ("human", text()),
        {"role": "user", "content": text(), "name": canary},
    ]


def values(probe):
    return {"question": probe.new_text(), "history": private_messages(probe)[1:]}


def head_of(probe, **options):
    """Knows the answer in the transcripts above."""
    session = probe.session()
    note_answer(session, AI_CALL)
    return PrivateHead(session, **options)


@pytest.mark.slow
class TestChain(TraceSafeContract):
    hears = requires = HEARD
    calls = runnable_calls(values)
    fallbacks = fallback_calls(values)
    retries = {
        "with_retry": lambda c, p: c.with_retry(wait_exponential_jitter=False).invoke(
            values(p), p.config
        ),
        "with_fallbacks": lambda c, p: c.with_fallbacks([PROMPT | p.chat_openai()]).invoke(
            values(p), p.config
        ),
    }
    refusals = {
        "a missing key": lambda c, p: c.invoke({"question": p.private_text}, p.config),
        "epsilon": lambda c, p: c.invoke(values(p), {"configurable": {"dp_epsilon": p.canary}}),
        "unknown answer": lambda c, p: c.invoke(
            {"question": p.private_text, "history": [AIMessage(p.private_text)]}, p.config
        ),
    }

    def adapter(self, probe):
        head = head_of(probe, keys=["question", "history"])
        return head | PROMPT | probe.chat_openai() | StrOutputParser()


def test_messages_are_rebuilt_and_public_ones_pass(probe):
    given = private_messages(probe)
    before = repr(given)
    system, human, ai, tool, pair, mapping = head_of(probe).invoke(given)
    assert repr(given) == before
    assert (system, ai) == (given[0], AI_CALL)
    block, text = human.content
    assert (set(block), block["type"]) == ({"type", "text"}, "text")
    texts = [block["text"], text, tool.content, pair.content, mapping.content]
    assert all(is_released(text, 7) for text in texts)
    assert human == HumanMessage(human.content, id=given[1].id)
    public = {"id": given[3].id, "name": "search", "status": "error"}
    assert tool == ToolMessage(tool.content, tool_call_id="call-1", **public)
    assert all(message == HumanMessage(message.content) for message in (pair, mapping))


def test_types_of_inputs_are_kept():
    head = PrivateHead(SANITIZER)
    text = head.invoke(StringPromptValue(text=PRIVATE))
    chat = head.invoke(ChatPromptValue(messages=[HumanMessage(PRIVATE)]))
    assert (type(text), type(chat)) == (StringPromptValue, ChatPromptValue)
    found = [head.invoke(PRIVATE), text.text, chat.messages[0].content]
    assert all(map(is_released, [*found, *head.invoke([PRIVATE, PRIVATE])]))
    assert type(head.invoke([HumanMessageChunk(PRIVATE)])[0]) is HumanMessage
    assert head.invoke("") == ""


def test_keys_choose_what_is_private():
    given = {"q": PRIVATE, "docs": [PRIVATE], "public": {"any": object()}}
    found = PrivateHead(SANITIZER, keys=["q", "docs"]).invoke(given)
    assert all(map(is_released, [found["q"], *found["docs"]]))
    assert found["public"] is given["public"]
    assert given["q"] == PRIVATE
    both = PrivateHead(SANITIZER).invoke({"a": PRIVATE, "b": PRIVATE})
    assert list(both) == ["a", "b"]
    assert all(map(is_released, both.values()))


KEYED = {"keys": ["q", "docs"]}
REFUSED = [
    [HumanMessage([{"type": "text", "text": PRIVATE}, IMAGE])],
    [HumanMessage([{"type": "text", "text": {"x": CANARY}}])],
    [ToolMessage([{"type": CANARY}], tool_call_id="1")],
    [ChatMessage(PRIVATE, role=CANARY)],
    [RemoveMessage(id="1")],
    [{CANARY: PRIVATE}],
    [(CANARY, PRIVATE)],
    [3],
    ("human", PRIVATE),
    PRIVATE.encode(),
    ImagePromptValue(image_url={"url": CANARY}),
    HumanMessage(PRIVATE),
    {"a": PRIVATE, "b": [PRIVATE]},
]
WITH_KEYS = [
    (KEYED, {"q": PRIVATE}, "key 'docs' is missing"),
    (KEYED, {"q": PRIVATE, "docs": {"x": CANARY}}, "key 'docs'.*got dict"),
    (KEYED, PRIVATE, "expected a dict.*got str"),
]


@over(
    "options, value, match", [*(({}, value, "expected|only text") for value in REFUSED), *WITH_KEYS]
)
def test_what_cannot_be_released_is_refused_before_any_charge(options, value, match, probe):
    chain = PrivateHead(probe.session(), **options) | probe.chat_openai()
    with pytest.raises(ParameterError, match=match) as sync:
        chain.invoke(value, probe.config)
    with pytest.raises(ParameterError, match=match) as asynchronous:
        asyncio.run(chain.ainvoke(value, probe.config))
    for caught in (sync, asynchronous):
        assert CANARY not in text_of(caught.value)
    assert not probe.charges
    assert not probe.remote.raw
    assert probe.records()["LangChain callbacks"] == ""
    assert CANARY not in "".join(probe.records().values())


def test_a_head_goes_first_and_alone():
    head = PrivateHead(SANITIZER)
    for left in ({"q": RunnablePassthrough()}, str.upper):
        with pytest.raises(ParameterError, match="the head goes first"):
            _ = left | head
    for second in (head, head | str.upper):
        with pytest.raises(ParameterError, match="one head"):
            _ = head | str.upper | second
    with pytest.raises(ParameterError, match="one head"):
        PrivateHead(SANITIZER, then=head)


async def _collect(items):
    return [item async for item in items]


CALLS = [
    lambda c, v: c.invoke(v),
    lambda c, v: asyncio.run(c.ainvoke(v)),
    lambda c, v: c.batch([v, v]),
    lambda c, v: list(c.stream(v)),
    lambda c, v: asyncio.run(_collect(c.astream_events(v, version="v2"))),
]
ENCLOSED = [
    lambda head: RunnablePassthrough() | head,
    lambda head: RunnableParallel(a=head),
    lambda head: RunnableParallel(a=RunnablePassthrough() | head),
    lambda head: RunnableLambda(lambda text: head.invoke(text)),
    lambda head: RunnableLambda(lambda text: head.invoke(text, {"callbacks": []})),
]


@over("call", CALLS)
@over("enclosed", ENCLOSED)
def test_a_head_refuses_to_run_inside_another_run(enclosed, call, probe):
    chain = enclosed(PrivateHead(probe.session()) | probe.chat_openai())
    with pytest.raises(ParameterError, match=r"inside another run.*the head goes first"):
        call(chain, PRIVATE)
    assert not probe.charges
    assert not probe.remote.raw


def test_a_head_refuses_to_run_in_a_traced_function(probe):
    head = PrivateHead(probe.session())
    traced = langsmith.traceable(lambda text: head.invoke(text), name="outer")
    with pytest.raises(ParameterError, match="inside another run"):
        traced(PRIVATE)
    assert not probe.charges
    assert CANARY in probe.records()["LangSmith"]  # why it refuses


def test_composition_gives_new_heads():
    head = PrivateHead(SANITIZER, keys=["q"])
    chain = head | {"x": lambda d: d["q"]} | (lambda d: d["x"])
    assert (chain.session, chain.keys, head.then) == (head.session, ("q",), None)
    assert is_released(chain.invoke({"q": PRIVATE}))
    assert set(head.assign(n=lambda d: 1).invoke({"q": PRIVATE})) == {"q", "n"}
    assert is_released(head.pick("q").invoke({"q": PRIVATE}))
    with pytest.raises(AttributeError):
        head.then = chain


def test_wrapped_heads_stay_heads(probe):
    starts = []

    def listen(run):
        starts.append(repr(run.inputs))

    async def alisten(run):
        listen(run)

    head = PrivateHead(SANITIZER) | (lambda text: f"<{text}>")
    answers = GenericFakeChatModel(messages=itertools.repeat("the answer"))
    for made in (
        head.with_listeners(on_start=listen),
        head.with_alisteners(on_start=alisten),
        head.with_types(output_type=str),
        (PrivateHead(SANITIZER) | answers.bind(tag="t")).bind(stop=["x"]),
        head.pipe(str.upper, str.lower, name="rest"),
        head.with_config(tags=["t"]),
    ):
        assert isinstance(made, PrivateHead)
        asyncio.run((made | str).ainvoke(PRIVATE, probe.config))
    assert len(starts) == 2
    found = probe.records()
    for kept in ("name\nrest\n", "tags\nt\n", "stop\nx\n"):
        assert kept in found["LangChain callbacks"]
    assert CANARY not in "".join([*found.values(), *starts])


def test_by_default_no_answer_is_noted_as_it_may_come_from_a_local_model(probe):
    session = probe.session()
    local = RunnableLambda(lambda _: AIMessage(f"extracted: {probe.private_text}", id="a"))
    chain = PrivateHead(session) | probe.chat_openai() | local
    messages = [("human", "one"), chain.invoke([("human", "one")]), ("human", "two")]
    with pytest.raises(EventRefused, match="note_answer"):
        chain.invoke(messages)
    note_answer(session, AIMessage("the draft"), event_id="a")
    chain.invoke(messages)
    assert json.loads(probe.remote.bodies[-1])["messages"][1]["content"] == "the draft"
    declared = PrivateHead(probe.session(), ai="pass") | probe.chat_openai()
    declared.invoke([AIMessage("public", name=probe.canary), ("human", "one")])
    assert not probe.remote.saw(probe.canary)


def test_a_system_message_may_be_private_and_conversations_have_names(probe):
    head = PrivateHead(probe.session(), system="release")
    messages = [SystemMessage(probe.private_text), HumanMessage([probe.private_text])]

    def released(**names):
        system, human = head.invoke(messages, {"configurable": names})
        assert probe.canary not in f"{system} {human}"
        return system.text, *human.content

    first = released(thread_id="a")
    assert first == released(thread_id="a") != released(session_id="b")
    assert len(probe.charges) == 4


def test_without_langchain_the_import_names_the_extra():
    assert "pip install '.[langchain]'" in said_without("langchain_core", "langchain_dp_middleware")


# DPSanitizer: the release alone -----------------------------------------------------------------

FALLBACKS = fallback_calls(Probe.new_text)


class TestSanitizer(TraceSafeContract):
    output = "released"
    calls = {
        **runnable_calls(lambda p: [HumanMessage(p.new_text(), name=p.canary)]),
        "text": lambda s, p: s.invoke(p.new_text(), p.config),
    }
    fallbacks = {"itself": FALLBACKS["itself"], "all of them": FALLBACKS["all of them"]}
    replays = {
        "by id": lambda s, p: s.invoke([HumanMessage(p.private_text, id="1")], p.config),
        "by transcript": lambda s, p: s.invoke([HumanMessage(p.private_text)], p.config),
        "blocks": lambda s, p: s.invoke([HumanMessage([p.private_text, "x"], id="2")], p.config),
    }
    refusals = {
        "no text": lambda s, p: s.invoke([HumanMessage([IMAGE, p.private_text])], p.config),
        "unknown answer": lambda s, p: s.invoke(
            [HumanMessage(p.private_text), AIMessage(p.private_text)], p.config
        ),
    }

    def adapter(self, probe):
        return DPSanitizer(probe.session())


def test_a_sanitizer_refuses_to_run_in_a_chain_unless_it_is_allowed(probe):
    chain = RunnableLambda(str) | DPSanitizer(probe.session())
    with pytest.raises(ParameterError, match=r"DPSanitizer runs inside.*PrivateHead first"):
        chain.invoke("secret")
    assert not probe.charges
    step = DPSanitizer(SANITIZER, traced="allow", keys=["q"])
    found = (step | RunnableLambda(lambda d: d["q"])).invoke({"q": "private", "lang": "en"})
    assert is_released(found, 1)
