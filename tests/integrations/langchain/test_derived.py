"""What is made of an adapter keeps its boundary, and only the remote model's answers are noted."""

from typing import ClassVar

import pytest
from langchain_core.callbacks import CallbackManager
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_dp_middleware import DPChatModel, DPRetriever, PrivateHead
from pydantic import BaseModel
from support.cases import over
from support.contract import ToolCall
from support.langchain import chat_model, infer

from dp_middleware.errors import EventRefused, ParameterError
from dp_middleware.models.trust import Location


class Found(BaseModel):
    """What was found."""

    q: str


@tool
def look_up(q: str) -> str:
    """Looks something up."""
    return q


def noting(model):
    return PrivateHead(model.session, answers="note") | model.inner


PLAIN = {
    "or": lambda m: m,
    "bind": lambda m: m.bind(stop=["x"]),
    "with_config": lambda m: m.with_config(tags=["t"]),
    "with_retry": lambda m: m.with_retry(),
    "with_fallbacks": lambda m: m.with_fallbacks([m.inner]),
    "PrivateHead": noting,
    "PrivateHead, with_retry": lambda m: noting(m).with_retry(),
}
MADE = {
    **PLAIN,
    "bind_tools": lambda m: m.bind_tools([look_up]),
    "bind, bind_tools": lambda m: m.bind(stop=["x"]).bind_tools([look_up]),
    "with_structured_output": lambda m: m.with_config(tags=["t"]).with_structured_output(
        Found, method="function_calling", include_raw=True
    ),
}


@over("made", MADE)
def test_of_whatever_is_made_the_remote_answer_is_noted_and_a_local_one_is_not(made, probe):
    session, local = probe.session(), probe.chat_openai(probe.local)  # which echoes
    model, question = DPChatModel(session, probe.chat_openai()), HumanMessage(probe.new_text())
    tool_call = [ToolCall(name="Found", arguments={"q": "x"})]
    probe.remote.reply = tool_call if made == "with_structured_output" else "a fine answer"
    thread = {"configurable": {"thread_id": "t"}}
    answer = MADE[made](model).invoke([question], thread)
    answer = answer["raw"] if isinstance(answer, dict) else answer
    model.invoke([question, answer, HumanMessage("two")], thread)
    sent = probe.remote.requests[-1]["messages"]
    assert sent[1].get("content") == (answer.text or None)
    extract = RunnableLambda(lambda _: local.invoke([question]))
    answer = (MADE[made](model) | extract).invoke([question], probe.config)
    assert probe.canary in answer.text
    sent = len(probe.remote.requests)
    for again in (model, PrivateHead(session) | probe.chat_openai()):
        with pytest.raises(EventRefused):
            again.invoke([question, answer, HumanMessage("two")])
    assert len(probe.remote.requests) == sent
    assert not probe.remote.saw(probe.canary)


class Asking(BaseChatModel):
    """A model that asks another one, two runs below its own, and answers something else."""

    other: BaseChatModel
    heard: list = []  # pydantic copies it

    @property
    def _llm_type(self):
        return "asking"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        handlers = run_manager.inheritable_handlers
        child = CallbackManager(handlers, handlers, parent_run_id=run_manager.run_id)
        below = RunnableConfig(callbacks=child)
        said = (RunnableLambda(lambda x: x) | self.other).invoke("private words", below)
        self.heard.append(said)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("remote words"))])


@over("made", PLAIN)
def test_what_a_model_asks_below_its_own_call_is_not_noted(made, probe):
    model = DPChatModel(probe.session(), Asking(other=probe.chat_openai(probe.local)))
    question, last = HumanMessage(probe.new_text()), HumanMessage("two")
    answer = PLAIN[made](model).invoke([question], probe.config)
    [heard] = model.inner.heard
    assert heard.text == "private words"
    model.invoke([question, answer, last], probe.config)
    with pytest.raises(EventRefused):
        model.invoke([question, heard, last], probe.config)


class Local(BaseRetriever):
    """Answers with the query."""

    location: ClassVar[Location] = Location()

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(query, id="1")]


ADAPTERS = {
    "InferDPTChatModel": infer,
    "DPChatModel": chat_model,
    "DPRetriever": lambda p: DPRetriever(p.session(), Local()),
    "PrivateHead": lambda p: PrivateHead(p.session()),
}
WRAPPERS = {
    "map": lambda x, p: x.map().invoke([p.new_text()], p.config),
    "as_tool": lambda x, p: x.as_tool(name="x", description="y").invoke(p.new_text(), p.config),
    "with_retry": lambda x, p: x.with_retry(stop_after_attempt=1).invoke(p.new_text(), p.config),
    "with_fallbacks": lambda x, p: x.with_fallbacks([x]).invoke(p.new_text(), p.config),
}
OWN = {"DPChatModel", "PrivateHead"}  # whose retries and fallbacks are behind the boundary


@over(
    "name, wrapper",
    [(n, w) for n in ADAPTERS for w in WRAPPERS if n not in OWN or w in ("map", "as_tool")],
)
def test_wrappers_that_would_trace_raw_text_are_refused(name, wrapper, probe):
    with pytest.raises(ParameterError, match=rf"{wrapper}\(\) of {name} would trace") as caught:
        WRAPPERS[wrapper](ADAPTERS[name](probe), probe)
    assert not probe.leaks(error=caught.value)
    assert not probe.charges


def test_what_may_be_recorded_may_be_wrapped(probe):
    for wrapper in ("map", "with_retry"):
        WRAPPERS[wrapper](infer(probe, traced="allow"), probe)
    assert len(probe.charges) == 2
    assert infer(probe, traced="allow") | (lambda text: text)


def test_what_would_record_raw_text_or_hand_it_on_is_refused_when_it_is_made(probe):
    model, other = infer(probe), probe.chat_openai()
    configured = chat_model(probe).configurable_fields(system=ConfigurableField(id="c"))
    for make, told in (
        (lambda: model.bind_tools([look_up]), "use DPChatModel"),
        (lambda: model.with_structured_output(Found), "use DPChatModel"),
        (lambda: model | (lambda text: text), "PrivateHead first"),
        (lambda: model.bind().pipe(lambda text: text), "PrivateHead first"),
        (lambda: configured | (lambda message: message), "PrivateHead first"),
    ):
        with pytest.raises(ParameterError, match=told):
            make()
    for own in (model, infer(probe, traced="allow")):
        for derived in (own, own.bind().with_config(tags=["t"])):
            with pytest.raises(ParameterError, match=r"with_fallbacks\(\) of Infer"):
                derived.with_fallbacks([other])
            with pytest.raises(ParameterError, match=r"alternatives\(\) of Infer"):
                derived.configurable_alternatives(ConfigurableField(id="m"), other=other)


def test_a_prompt_that_adds_text_is_not_noted(probe):
    """Neither its own words nor what was filled in before; what a local model echoes is private."""
    session, question = probe.session(), HumanMessage(probe.new_text())
    local, remote = probe.chat_openai(probe.local), probe.chat_openai()
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("m"), ("human", "{context}")])
    filled = prompt.partial(context=probe.private_text)
    probe.remote.failures = 1
    with_fallback = DPChatModel(session, remote).with_fallbacks([filled | local])
    noting = PrivateHead(session, keys=["m"], answers="note") | filled | local
    for answer in (with_fallback.invoke([question]), noting.invoke({"m": [question]})):
        assert probe.canary in answer.text
        with pytest.raises(EventRefused):
            DPChatModel(session, remote).invoke([question, answer, HumanMessage("two")])
    assert not probe.remote.saw(probe.canary)
