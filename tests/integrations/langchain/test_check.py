"""check_agent finds every model that would be sent raw text behind the middleware's back."""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

import openai
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    before_model,
)
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.tools import tool
from langchain_dp_middleware import (
    DPAgentMiddleware,
    DPChatModel,
    DPSanitizer,
    InferDPTChatModel,
    PrivateHead,
    check_agent,
)
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

import dp_middleware as dp
from dp_middleware.errors import ParameterError

WORDS = [f"w{i}x" for i in range(20)]
SPACE = dp.EmbeddingSpace(dp.Vocabulary(WORDS), np.random.default_rng(0).normal(size=(20, 6)))
SESSION = dp.Session(dp.Sanitizer(dp.TokenExponential(epsilon=4.0), SPACE))
LOOPBACK = "http://127.0.0.1:9/v1"


def remote(url=None):
    return ChatOpenAI(model="gpt-4o-mini", api_key="key", base_url=url)


def protected(**options):
    return DPAgentMiddleware(SESSION, **options)


class Inner(AgentMiddleware):
    """Looks at a request, and may put something into it."""

    def wrap_model_call(self, request, handler):
        return handler(request)

    async def awrap_model_call(self, request, handler):
        return await handler(request)


HELPER = remote()


@tool
def by_global(q: str) -> str:
    """Asks a model that is a global."""
    return next(HELPER.invoke(each).text for each in [q])


def by_closure(model):
    @tool
    def ask(q: str) -> str:
        """Asks a model of its closure."""
        return model.invoke(q).text

    return ask


def by_agent(agent):
    @tool
    def delegate(q: str) -> str:
        """Asks another agent."""
        return agent.invoke({"messages": [("user", q)]})["messages"][-1].text

    return delegate


class Helper:
    """A component of the user's own."""

    def __init__(self, model):
        self.chain = PrivateHead(SESSION) | model
        self.models = {"first": [functools.partial(model.invoke, config=None)]}

    def ask(self, q: str) -> str:
        """Asks a model in a field."""
        return self.models["first"][0](q).text


def wheres(agent, **options):
    findings = check_agent(agent, **options)
    assert all(each.what and each.remedy and each.where in str(each) for each in findings)
    return [each.where for each in findings]


def test_a_protected_agent_has_no_findings():
    fine = [PIIMiddleware("email"), ModelRetryMiddleware(on_failure="error"), protected()]
    assert not check_agent(create_agent(remote(), middleware=fine))
    assert not check_agent(PrivateHead(SESSION) | create_agent(remote(), middleware=fine))
    assert not check_agent(create_agent(DPChatModel(SESSION, remote())))


@pytest.mark.parametrize("url", [None, LOOPBACK])
def test_the_agents_own_model_without_the_middleware(url):
    model = remote(url)
    [finding] = check_agent(create_agent(model))
    assert finding.where == "model"
    assert "ChatOpenAI" in finding.what
    assert not check_agent(create_agent(model), local=[model])


# A model that runs where the agent's own does is remote too, even on loopback.
@pytest.mark.parametrize("url", [None, LOOPBACK])
@pytest.mark.parametrize(
    "make",
    [
        lambda model: SummarizationMiddleware(model=model),
        lambda model: LLMToolSelectorMiddleware(model=model),
        lambda model: LLMToolEmulator(model=model),
    ],
)
def test_middleware_with_a_model_of_its_own(make, url):
    def found(model, **options):
        middleware = [make(model), protected()]
        return wheres(
            create_agent(remote(url), [by_closure(None)], middleware=middleware), **options
        )

    bare = remote(url)
    assert found(bare) == [f"middleware {make(bare).name}"]
    assert not found(bare, local=[bare])
    assert not found(DPChatModel(SESSION, bare))


def test_a_local_model_is_fine():
    local = [remote(LOOPBACK), GenericFakeChatModel(messages=iter([]))]
    for model in local:
        middleware = [SummarizationMiddleware(model=model), protected()]
        assert not check_agent(create_agent(remote(), middleware=middleware))
    same_class = [SummarizationMiddleware(model=local[1]), protected()]
    own = GenericFakeChatModel(messages=iter([]))
    assert wheres(create_agent(own, middleware=same_class)) == [
        "middleware SummarizationMiddleware"
    ]


def test_a_tool_selector_that_borrows_the_agents_model():
    agent = create_agent(remote(), middleware=[LLMToolSelectorMiddleware(), protected()])
    assert wheres(agent) == ["middleware LLMToolSelectorMiddleware"]


def test_fallback_models_are_called_behind_the_swap():
    fallback = ModelFallbackMiddleware(remote())
    assert not check_agent(create_agent(remote(), middleware=[fallback, protected()]))
    assert "middleware ModelFallbackMiddleware" in wheres(
        create_agent(remote(), middleware=[protected(), fallback])
    )
    assert wheres(create_agent(remote(), middleware=[fallback])) == [
        "model",
        "middleware ModelFallbackMiddleware",
    ]


def test_the_order_of_middleware():
    @before_model
    def late(state, runtime):
        return None

    for other in (Inner(), late):
        [finding] = check_agent(create_agent(remote(), middleware=[protected(), other]))
        assert finding.where == f"middleware {other.name}"
        assert "after DPAgentMiddleware" in finding.what
        assert not check_agent(create_agent(remote(), middleware=[other, protected()]))


def test_tools_that_hold_models_and_agents():
    unprotected = create_agent(remote(), [by_closure(remote())])
    tools = [by_agent(unprotected), Helper(remote()).ask]
    agent = create_agent(remote(), tools, middleware=[protected()])
    assert wheres(agent) == [
        "tool delegate > model",
        "tool delegate > tool ask",
        "tool ask",
    ]
    sound = [
        by_agent(create_agent(remote(), middleware=[protected()])),
        by_closure(remote(LOOPBACK)),
    ]
    assert not check_agent(create_agent(remote(), sound, middleware=[protected()]))


class OfClass:
    """Has a model of its class, asked by a class method and a property."""

    model = HELPER

    @classmethod
    def ask(cls, q: str) -> str:
        """Asks."""
        return cls.model.invoke(q).text


class Slotted:
    """Keeps its model in a slot, beside one that is empty."""

    __slots__ = ("empty", "model")

    def __init__(self):
        self.model = HELPER

    def ask(self, q: str) -> str:
        """Asks."""
        return self.model.invoke(q).text


class Looking(AgentMiddleware):
    """Asks a model of its class in a hook."""

    model = HELPER

    def before_model(self, state, runtime):
        self.model.invoke("x")


def asking(model):
    @before_model
    def decorated(state, runtime):
        """Asks a model of its closure."""
        model.invoke(state["messages"])

    return decorated


def by_client(client):
    def ask(q: str) -> str:
        """Asks without LangChain."""
        return client.responses.create(input=q).output_text

    return ask


@pytest.mark.parametrize(
    "given",
    [
        OfClass.ask,
        OfClass().ask,
        Slotted().ask,
        by_client(openai.OpenAI(api_key="key")),
    ],
    ids=["class method", "class attribute", "slot", "client"],
)
def test_wherever_a_tool_has_its_model(given):
    [finding] = check_agent(create_agent(remote(), [given], middleware=[protected()]))
    assert finding.where.startswith("tool ")


def test_a_client_on_loopback_is_fine():
    near = by_client(openai.OpenAI(api_key="key", base_url=LOOPBACK))
    assert not check_agent(create_agent(remote(), [near], middleware=[protected()]))


def test_a_global_is_not_seen():
    assert not check_agent(create_agent(remote(), [by_global], middleware=[protected()]))


@pytest.mark.parametrize("given", [Looking(), asking(HELPER)], ids=["class", "decorated"])
def test_a_hook_that_asks_a_model(given):
    agent = create_agent(remote(), middleware=[given, protected()])
    assert wheres(agent) == [f"middleware {given.name}"]


def test_what_releases_before_it_sends_is_fine():
    local = dp.chat_model(lambda messages: "x", local=True)
    infer = dp.InferDPT(SESSION.sanitizer, remote=remote(), extractor=local)
    head = PrivateHead(SESSION) | remote()

    def infer_tool(q: str) -> str:
        """Asks a remote model about a release."""
        return infer.run(q).text

    def head_tool(q: str) -> str:
        """Asks a remote model behind a head."""
        return head.invoke(q).text

    tools = [infer_tool, head_tool]
    assert not check_agent(create_agent(remote(), tools, middleware=[protected()]))
    behind = by_agent(PrivateHead(SESSION) | create_agent(remote()))  # results of tools are raw
    agent = create_agent(remote(), [behind], middleware=[protected()])
    assert wheres(agent) == ["tool delegate > model"]


def test_a_sanitizer_that_may_be_recorded_releases_for_what_is_behind_it():
    sound = DPSanitizer(SESSION, traced="allow") | remote()
    agent = create_agent(remote(), [by_closure(sound)], middleware=[protected()])
    assert not check_agent(agent)
    local = dp.chat_model(lambda messages: "x", local=True)
    private = InferDPTChatModel(SESSION, remote=remote(), extractor=local, traced="allow")
    agent = create_agent(remote(), [by_closure(private | remote())], middleware=[protected()])
    [finding] = check_agent(agent)
    assert finding.where == "tool ask"
    assert "ChatOpenAI is sent raw text" in finding.what


def test_what_is_behind_the_boundary_of_a_model_does_not_release():
    behind = (DPChatModel(SESSION, remote()) | str).then
    for part in (behind, behind.first, behind.first.with_config(tags=["x"])):
        agent = create_agent(remote(), [by_closure(part)], middleware=[protected()])
        assert wheres(agent) == ["tool ask"]
    assert wheres(create_agent(behind.first)) == ["model"]


def test_agents_in_a_graph():
    graph = StateGraph(MessagesState)
    graph.add_node("worker", create_agent(remote()))
    ask = HELPER.invoke
    graph.add_node("writer", lambda state: {"messages": [ask(state["messages"])]})
    graph.add_edge(START, "worker")
    graph.add_edge("worker", "writer")
    graph.add_edge("writer", END)
    assert wheres(graph.compile()) == ["node worker > model", "node writer"]


def test_middleware_that_writes_messages_and_printed_state():
    retry, limit = ModelRetryMiddleware(), ModelCallLimitMiddleware(run_limit=3)
    agent = create_agent(remote(), middleware=[retry, limit, protected()], debug=True)
    assert wheres(agent) == [
        "agent",
        "middleware ModelRetryMiddleware",
        "middleware ModelCallLimitMiddleware",
    ]


class Archive(InMemorySaver):
    """Keeps checkpoints somewhere."""


def test_memories_that_may_keep_raw_messages_elsewhere():
    def agent(kept):
        return create_agent(remote(), middleware=[protected()], checkpointer=kept)

    elsewhere = Archive()
    [finding] = check_agent(agent(elsewhere))
    assert finding.where == "memory"
    assert "Archive keeps raw messages" in finding.what
    assert not check_agent(agent(elsewhere), local=[elsewhere])
    assert not check_agent(agent(InMemorySaver()))


def test_only_an_agent_is_taken():
    with pytest.raises(ParameterError, match="compiled agent"):
        check_agent(remote())
