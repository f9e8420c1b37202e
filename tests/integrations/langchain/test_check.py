"""check_agent finds every model that would be sent raw text behind the middleware's back."""

import functools

import numpy as np
import pytest
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
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool
from langchain_dp_middleware import DPAgentMiddleware, DPChatModel, PrivateHead, check_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from support.cases import over

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


class Looking(AgentMiddleware):
    """Asks a model in a hook."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def before_model(self, state, runtime):
        self.model.invoke("x")


def wheres(agent, **options):
    findings = check_agent(agent, **options)
    assert all(finding.what and finding.remedy for finding in findings)
    assert all(finding.where in str(finding) for finding in findings)
    return [finding.where for finding in findings]


def found(*middleware, tools=(), model=None, **options):
    agent = create_agent(model or remote(), [*tools], middleware=[*middleware, protected()])
    return wheres(agent, **options)


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
@over("url", [None, LOOPBACK])
@over("kind", [SummarizationMiddleware, LLMToolSelectorMiddleware, LLMToolEmulator])
def test_middleware_with_a_model_of_its_own(kind, url):
    tools, own, bare = [by_closure(None)], remote(url), remote(url)
    layer = kind(model=bare)
    assert found(layer, tools=tools, model=own) == [f"middleware {layer.name}"]
    assert not found(layer, tools=tools, model=own, local=[bare])
    assert not found(kind(model=DPChatModel(SESSION, bare)), tools=tools, model=own)


@pytest.mark.parametrize("near", [remote(LOOPBACK), FakeListChatModel(responses=["x"])])
def test_a_local_model_is_fine(near):
    assert not found(SummarizationMiddleware(model=near))


def test_fallback_models_are_called_behind_the_swap():
    fallback, name = ModelFallbackMiddleware(remote()), "middleware ModelFallbackMiddleware"
    assert not found(fallback)
    assert name in wheres(create_agent(remote(), middleware=[protected(), fallback]))
    assert wheres(create_agent(remote(), middleware=[fallback])) == ["model", name]


@before_model
def late(state, runtime):
    return None


@pytest.mark.parametrize("other", [Inner(), late])
def test_the_order_of_middleware(other):
    [finding] = check_agent(create_agent(remote(), middleware=[protected(), other]))
    assert finding.where == f"middleware {other.name}"
    assert "after DPAgentMiddleware" in finding.what
    assert not found(other)


RETRY, LIMIT = ModelRetryMiddleware(), ModelCallLimitMiddleware(run_limit=3)
LAYERS = {
    "borrows the agent's model": [LLMToolSelectorMiddleware()],
    "asks in a hook": [Looking(remote())],
    "writes messages": [RETRY, LIMIT],
}


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
def test_middleware_that_needs_a_remedy(layers):
    assert found(*layers) == [f"middleware {layer.name}" for layer in layers]
    agent = create_agent(remote(), middleware=[*layers, protected()], debug=True)
    assert wheres(agent)[0] == "agent"  # printed state


def slotted(model):
    kept = type("Slotted", (), {"__slots__": ("empty", "model")})()
    kept.model = model
    return by_closure(kept)


TOOLS = {
    "closure": by_closure,
    "client": lambda model: by_closure(model.root_client),
    "slot": slotted,
    "field and partial": lambda model: Helper(model).ask,
    "agent": lambda model: by_agent(create_agent(model)),
    "behind a boundary": lambda model: by_closure((DPChatModel(SESSION, model) | str).then),
}


@over("make", TOOLS.values())
def test_wherever_a_tool_has_its_model(make):
    [where] = found(tools=[make(remote())])
    assert where.startswith("tool ")
    assert where.endswith(" > model") is ("delegate" in where)
    with_own_model = [make(remote(LOOPBACK))]
    if "delegate" not in where:
        assert not found(tools=with_own_model)


def test_what_releases_before_it_sends_is_fine():
    local = dp.chat_model(lambda messages: "x", local=True)
    infer = dp.InferDPT(SESSION.sanitizer, remote=remote(), extractor=local)
    for part in (infer, PrivateHead(SESSION) | remote()):
        assert not found(tools=[by_closure(part)])


def test_an_agent_in_a_tool_is_looked_into():
    helper = create_agent(remote(), [by_closure(remote())])
    assert found(tools=[by_agent(helper)]) == ["tool delegate > model", "tool delegate > tool ask"]
    assert not found(tools=[by_agent(create_agent(remote(), middleware=[protected()]))])


def test_agents_in_a_graph():
    graph = StateGraph(MessagesState)
    graph.add_node("worker", create_agent(remote()))
    ask = remote().invoke
    graph.add_node("writer", lambda state: {"messages": [ask(state["messages"])]})
    graph.add_edge(START, "worker")
    graph.add_edge("worker", "writer")
    graph.add_edge("writer", END)
    assert wheres(graph.compile()) == ["node worker > model", "node writer"]


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
