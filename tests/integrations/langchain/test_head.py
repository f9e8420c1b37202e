"""PrivateHead: on every call path, nothing that LangChain can record holds the raw text."""

import asyncio
import doctest
import importlib
import itertools
import json
import re
import threading
import time
import traceback

import langsmith
import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler
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
from langchain_dp_middleware import PrivateHead, note_answer
from support.cases import over
from support.contract import TraceSafeContract, fallback_calls, runnable_calls
from support.extras import said_without
from support.langchain import HEARD
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.errors import EventRefused, ParameterError

PRIVATE = f"{CANARY} one two {CANARY} three four"  # no word of it is in the vocabulary
WORDS = [f"w{i}x" for i in range(50)]
RELEASED = re.compile(r"(?:w\d+x ?)+")
SPACE = dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.random.default_rng(0).normal(size=(50, 6)))
SANITIZER = dp.Sanitizer(dp.TokenExponential(epsilon=4.0), SPACE)
AI_CALL = AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "call-1"}], id="ai-1")
IMAGE = {"type": "image_url", "image_url": {"url": f"https://{CANARY}.example"}}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "public rules"), MessagesPlaceholder("history"), ("human", "{question}")]
)


def is_released(text, words=6):
    return RELEASED.fullmatch(text) is not None and len(text.split()) == words


def session_of_chat():
    """Knows the answer in the transcripts below."""
    session = dp.Session(SANITIZER)
    note_answer(session, AI_CALL)
    return session


class Counting(dp.Session):
    """A session that remembers what it released."""

    def __init__(self):
        super().__init__(SANITIZER)
        self.raw, self.out = [], []

    def _release(self, message, *within):
        self.raw.append(message.event.text)
        released = super()._release(message, *within)
        self.out.append(released.release.text)
        return released


class RecordingModel(GenericFakeChatModel):
    """A remote model that answers always and remembers what it was sent."""

    received: list = []  # pydantic copies it

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.received.append(messages)
        return super()._generate(messages, stop, run_manager, **kwargs)


def model():
    return RecordingModel(messages=itertools.repeat("the answer"), received=[])


CALLS = {
    "invoke": lambda c, v: c.invoke(v),
    "ainvoke": lambda c, v: asyncio.run(c.ainvoke(v)),
    "batch": lambda c, v: c.batch([v, v]),
    "stream": lambda c, v: list(c.stream(v)),
    "events": lambda c, v: asyncio.run(_collect(c.astream_events(v, version="v2"))),
}


async def _collect(items):
    return [item async for item in items]


def private_messages(canary=CANARY, text=lambda: PRIVATE, name=lambda: 1):
    """A canary in every private slot of human and tool messages."""
    slots = {"additional_kwargs": {canary: canary}, "response_metadata": {"m": canary}}
    blocks = [{"type": "text", "text": text(), "annotations": [canary], "id": canary}, text()]
    return [
        SystemMessage("public rules"),
        HumanMessage(blocks, id=f"human-{name()}", note=canary, name=canary, **slots),
        AI_CALL,
        ToolMessage(
            text(),
            tool_call_id="call-1",
            id=f"tool-{name()}",
            artifact=canary,
            status="error",
            name="search",
            **slots,
        ),
        ("human", text()),
        {"role": "user", "content": text(), "name": canary},
    ]


def values(probe):
    """A canary in every private slot of human and tool messages."""
    messages = private_messages(probe.canary, probe.new_text, probe.new_id)
    return {"question": probe.new_text(), "history": messages[1:]}


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
        session = probe.session()
        note_answer(session, AI_CALL)
        head = PrivateHead(session, keys=["question", "history"])
        return head | PROMPT | probe.chat_openai() | StrOutputParser()


def test_messages_are_rebuilt_and_public_ones_pass():
    given = private_messages()
    before = repr(given)
    system, human, ai, tool, pair, mapping = PrivateHead(session_of_chat()).invoke(given)
    assert repr(given) == before
    assert (system, ai) == (given[0], AI_CALL)
    assert [set(human.content[0]), human.content[0]["type"]] == [{"type", "text"}, "text"]
    assert all(map(is_released, [human.content[0]["text"], human.content[1], tool.content]))
    assert human == HumanMessage(human.content, id="human-1")
    public = {"id": "tool-1", "name": "search", "status": "error"}
    assert tool == ToolMessage(tool.content, tool_call_id="call-1", **public)
    assert all(m == HumanMessage(m.content) and is_released(m.content) for m in (pair, mapping))


def test_types_of_inputs_are_kept():
    head = PrivateHead(SANITIZER)
    assert is_released(head.invoke(PRIVATE))
    text = head.invoke(StringPromptValue(text=PRIVATE))
    assert type(text) is StringPromptValue
    assert is_released(text.text)
    chat = head.invoke(ChatPromptValue(messages=[HumanMessage(PRIVATE)]))
    assert type(chat) is ChatPromptValue
    assert is_released(chat.messages[0].content)
    assert type(head.invoke([HumanMessageChunk(PRIVATE)])[0]) is HumanMessage
    assert all(map(is_released, head.invoke([PRIVATE, PRIVATE])))
    assert head.invoke("") == ""


def test_keys_choose_what_is_private():
    given = {"q": PRIVATE, "docs": [PRIVATE], "public": {"any": object()}}
    found = PrivateHead(SANITIZER, keys=["q", "docs"]).invoke(given)
    assert is_released(found["q"])
    assert is_released(found["docs"][0])
    assert found["public"] is given["public"]
    assert given["q"] == PRIVATE
    both = PrivateHead(SANITIZER).invoke({"a": PRIVATE, "b": PRIVATE})
    assert list(both) == ["a", "b"]
    assert all(map(is_released, both.values()))


def test_streamed_input_is_released_once_and_whole():
    session = Counting()
    found = list((PrivateHead(session) | str.upper).transform(iter([PRIVATE[:9], PRIVATE[9:]])))
    assert session.raw == [PRIVATE]
    assert found == [session.out[0].upper()]


REFUSED = {
    "image": [HumanMessage([{"type": "text", "text": PRIVATE}, IMAGE])],
    "text block without text": [HumanMessage([{"type": "text", "text": {"x": CANARY}}])],
    "thinking in a tool result": [ToolMessage([{"type": CANARY}], tool_call_id="1")],
    "role": [ChatMessage(PRIVATE, role=CANARY)],
    "removal": [RemoveMessage(id="1")],
    "unreadable dict": [{CANARY: PRIVATE}],
    "unreadable pair": [(CANARY, PRIVATE)],
    "number": [3],
    "tuple": ("human", PRIVATE),
    "bytes": PRIVATE.encode(),
    "image prompt": ImagePromptValue(image_url={"url": CANARY}),
    "one message": HumanMessage(PRIVATE),
    "value that is no text": {"a": PRIVATE, "b": [PRIVATE]},
}


def everything_in(error):
    """The error as text, with all that hangs on it."""
    return "".join(traceback.format_exception(error)) + repr(
        [error.__dict__, error.args, error.__context__, error.__cause__]
    )


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
@pytest.mark.asyncio
async def test_what_cannot_be_released_is_refused_before_any_charge(value, probe):
    session, remote = Counting(), model()
    chain = PrivateHead(session) | remote
    with pytest.raises(ParameterError, match=r"expected|only text") as sync:
        chain.invoke(value, probe.config)
    with pytest.raises(ParameterError) as asynchronous:
        await chain.ainvoke(value, probe.config)
    for caught in (sync, asynchronous):
        assert CANARY not in everything_in(caught.value)
    assert (session.raw, remote.received) == ([], [])
    assert probe.records()["LangChain callbacks"] == ""
    assert CANARY not in "".join(probe.records().values())


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"q": PRIVATE}, "key 'docs' is missing"),
        ({"q": PRIVATE, "docs": {"x": CANARY}}, "key 'docs'.*got dict"),
        (PRIVATE, "expected a dict.*got str"),
    ],
)
def test_keys_must_be_there_and_hold_text(value, match):
    session = Counting()
    with pytest.raises(ParameterError, match=match) as caught:
        PrivateHead(session, keys=["q", "docs"]).invoke(value)
    assert CANARY not in everything_in(caught.value)
    assert session.raw == []


@pytest.mark.parametrize(
    "left", [{"q": RunnablePassthrough()}, str.upper], ids=["dict", "function"]
)
def test_nothing_is_piped_into_a_head(left):
    with pytest.raises(ParameterError, match="the head goes first"):
        _ = left | PrivateHead(SANITIZER)


def test_one_head_is_enough():
    for second in (PrivateHead(SANITIZER), PrivateHead(SANITIZER) | str.upper):
        with pytest.raises(ParameterError, match="one head"):
            _ = PrivateHead(SANITIZER) | str.upper | second
    with pytest.raises(ParameterError, match="one head"):
        PrivateHead(SANITIZER, then=PrivateHead(SANITIZER))


def _enclosed(head):
    ignoring_config = RunnableLambda(lambda text: head.invoke(text))
    own_callbacks = RunnableLambda(lambda text: head.invoke(text, {"callbacks": []}))
    return {
        "sequence": RunnablePassthrough() | head,
        "parallel": RunnableParallel(a=head),
        "map": RunnableParallel(a=RunnablePassthrough() | head),
        "function": ignoring_config,
        "function with callbacks": own_callbacks,
    }


@over("call", CALLS)
@over("outer", _enclosed(PrivateHead(SANITIZER)))
def test_a_head_refuses_to_run_inside_another_run(outer, call):
    session, remote = Counting(), model()
    chain = _enclosed(PrivateHead(session) | remote)[outer]
    with pytest.raises(ParameterError, match=r"inside another run.*the head goes first"):
        CALLS[call](chain, PRIVATE)
    assert (session.raw, remote.received) == ([], [])


def test_a_head_refuses_to_run_in_a_traced_function(probe):
    session = Counting()
    traced = langsmith.traceable(lambda text: PrivateHead(session).invoke(text), name="outer")
    with pytest.raises(ParameterError, match="inside another run"):
        traced(PRIVATE)
    assert session.raw == []
    assert CANARY in probe.records()["LangSmith"]  # why it refuses


def test_composition_gives_new_heads():
    head = PrivateHead(SANITIZER, keys=["q"])
    chain = head | {"x": lambda d: d["q"]} | (lambda d: d["x"])
    assert isinstance(chain, PrivateHead)
    assert (chain.session, chain.keys, head.then) == (head.session, ("q",), None)
    assert is_released(chain.invoke({"q": PRIVATE}))
    assert set(head.assign(n=lambda d: 1).invoke({"q": PRIVATE})) == {"q", "n"}
    assert is_released(head.pick("q").invoke({"q": PRIVATE}))
    with pytest.raises(AttributeError):
        head.then = chain


@pytest.mark.asyncio
async def test_wrapped_heads_stay_heads(probe):
    starts = []
    listeners = {"on_start": lambda run: starts.append(repr(run.inputs))}

    async def alisten(run):
        starts.append(repr(run.inputs))

    head = PrivateHead(SANITIZER) | (lambda text: f"<{text}>")
    bound = (PrivateHead(SANITIZER) | model().bind(tag="t")).bind(stop=["x"])
    for chain in (
        head.with_listeners(**listeners),
        head.with_alisteners(on_start=alisten),
        head.with_types(output_type=str),
        bound,
        head.pipe(str.upper, str.lower, name="rest"),
        head.with_config(tags=["t"]),
    ):
        assert isinstance(chain, PrivateHead)
        await (chain | str).ainvoke(PRIVATE, probe.config)
    assert len(starts) == 2
    found = probe.records()
    assert "name\nrest\n" in found["LangChain callbacks"]
    assert "tags\nt\n" in found["LangChain callbacks"]
    assert "stop\nx\n" in found["LangChain callbacks"]
    assert CANARY not in "".join([*found.values(), *starts])


def test_by_default_no_answer_is_noted_as_it_may_come_from_a_local_model(probe):
    session = probe.session()
    head = PrivateHead(session)
    local = RunnableLambda(lambda _: AIMessage(f"extracted: {probe.private_text}", id="a"))
    chain = head | probe.chat_openai() | local
    question = HumanMessage("one")
    answer = chain.invoke([question])
    with pytest.raises(EventRefused, match="note_answer"):
        chain.invoke([question, answer, HumanMessage("two")])
    note_answer(session, AIMessage("the draft"), event_id="a")
    chain.invoke([question, answer, HumanMessage("two")])
    assert json.loads(probe.remote.bodies[-1])["messages"][1]["content"] == "the draft"
    declared = PrivateHead(probe.session(), ai="pass") | probe.chat_openai()
    declared.invoke([AIMessage("public", name=probe.canary), question])
    assert not probe.remote.saw(probe.canary)


def test_a_system_message_may_be_private(probe):
    messages = [SystemMessage(probe.private_text), HumanMessage([probe.private_text])]
    system, human = PrivateHead(probe.session(), system="release").invoke(messages)
    assert probe.canary not in system.text
    assert probe.released(human.content[0])


def test_conversations_have_names(probe):
    head = PrivateHead(probe.session())

    def released(**names):
        return head.invoke([HumanMessage(probe.private_text)], {"configurable": names})[0].text

    first = released(thread_id="a")
    assert first == released(thread_id="a") != released(session_id="b")
    assert len(probe.charges) == 2


class Starts(BaseCallbackHandler):
    """How many runs began."""

    count = 0

    def on_chain_start(self, *args, **kwargs):
        self.count += 1


@pytest.mark.parametrize("bound", [False, True], ids=["config", "with_config"])
def test_each_input_of_a_batch_has_its_own_release_and_run(bound):
    session, starts, at_once, most = Counting(), Starts(), threading.Semaphore(3), []

    def step(text):
        most.append(at_once.acquire(blocking=False))  # more than max_concurrency would fail
        time.sleep(0.005)
        at_once.release()
        return text

    chain, config = PrivateHead(session) | step, {"max_concurrency": 3, "callbacks": [starts]}
    chain, config = (chain.with_config(config), None) if bound else (chain, config)
    inputs = [f"{PRIVATE} {i}" for i in range(32)]
    outputs = dict(chain.batch_as_completed(inputs, config))
    assert sorted(session.raw) == sorted(inputs)
    assert sorted(outputs) == list(range(32))
    assert sorted(outputs.values()) == sorted(session.out)
    assert len(set(session.out)) == 32
    assert all(most)
    assert starts.count == 32


def test_without_langchain_the_import_names_the_extra():
    assert "pip install '.[langchain]'" in said_without("langchain_core", "langchain_dp_middleware")


def test_the_example_of_the_docstring_runs():
    ran = doctest.testmod(importlib.import_module(PrivateHead.__module__))
    assert (ran.attempted > 1, ran.failed) == (True, 0)
