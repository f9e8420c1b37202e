"""check_chain names every place where raw input reaches what does not release it."""

import functools

import pytest
from support.cases import over

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import (
    DPAgentMiddleware,
    DPChatModel,
    DPRetriever,
    InferDPTChatModel,
    PrivateHead,
    check_chain,
    untraced,
)
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.graph import END, START, MessagesState, StateGraph

import dp_middleware as dp
from dp_middleware.errors import ParameterError

SPACE = dp.EmbeddingSpace(dp.Vocabulary(["red", "blue"]), [[1, 0], [0, 1]])
SESSION = dp.Session(dp.Sanitizer(dp.TokenExponential(epsilon=2.0), SPACE))
PROMPT = ChatPromptTemplate.from_template("{q}")
REMOTE = ChatOpenAI(model="m", api_key="k")
NEAR = ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:9/v1")
OURS = DPChatModel(SESSION, REMOTE)
RETRIEVER = InMemoryVectorStore(DeterministicFakeEmbedding(size=2)).as_retriever()
OUTSIDE = InMemoryVectorStore(OpenAIEmbeddings(model="m", api_key="k")).as_retriever()
INFER = InferDPTChatModel(
    SESSION,
    remote=REMOTE,
    extractor=dp.chat_model(lambda messages: "x", local=True),
    traced="allow",
)


class Handler(BaseCallbackHandler):
    """Records."""


def closing_over(model):
    return RunnableLambda(lambda text: model.invoke(text))


FINE = {
    "head": PrivateHead(SESSION, keys=["q"]) | PROMPT | REMOTE | StrOutputParser(),
    "model": PROMPT | OURS | StrOutputParser(),
    "bound": PROMPT | OURS.bind(stop=["x"]).with_fallbacks([REMOTE]),
    "model, then remote": OURS | REMOTE,
    "local": PROMPT | NEAR,
    "released documents": DPRetriever(SESSION, RETRIEVER, query="public")
    | RunnableLambda(str)
    | REMOTE,
    "recorded behind the head": PrivateHead(SESSION)
    | (PROMPT | REMOTE).with_config(callbacks=[Handler()]),
    "function behind the head": PrivateHead(SESSION) | closing_over(REMOTE),
}

BAD = {
    "plain": (PROMPT | REMOTE, "chain, step 1", "ChatOpenAI is sent raw text"),
    "bound": (REMOTE.bind(stop=["x"]), "chain, bound", "ChatOpenAI"),
    "documents": (
        PrivateHead(SESSION) | {"context": RETRIEVER, "q": RunnablePassthrough()} | PROMPT | REMOTE,
        "chain, step 2",
        "ChatOpenAI",
    ),
    "fallback": ((PROMPT | OURS).with_fallbacks([PROMPT | REMOTE]), "fallbacks 0, step 1", "Chat"),
    "retry": ((PROMPT | REMOTE).with_retry(), "bound, step 1", "ChatOpenAI"),
    "assign": (RunnablePassthrough.assign(a=PROMPT | REMOTE), "steps a, step 1", "ChatOpenAI"),
    "branch": (RunnableBranch((lambda x: True, OURS), REMOTE), "default", "ChatOpenAI"),
    "function": (closing_over(REMOTE), "RunnableLambda", "ChatOpenAI"),
    "retriever": (OUTSIDE, "chain", "VectorStoreRetriever is sent raw text"),
    "local answer": (PROMPT | NEAR | REMOTE, "step 2", "ChatOpenAI"),
    "private answer": (INFER | REMOTE, "step 1", "ChatOpenAI"),
    "callbacks": ((PROMPT | OURS).with_config(callbacks=[Handler()]), "chain", "Handler records"),
    "listener": ((PROMPT | OURS).with_listeners(on_start=print), "chain", "records raw"),
    "behind a boundary": ((OURS | str).then, "step 0", "ChatOpenAI is sent raw text"),
    "each": (REMOTE.map(), "bound", "ChatOpenAI"),
}


@over("chain", FINE)
def test_a_chain_that_releases_first_has_no_findings(chain):
    assert check_chain(FINE[chain]) == []


@over("chain", BAD)
def test_where_raw_input_goes_is_named(chain):
    runnable, where, what = BAD[chain]
    [finding] = check_chain(runnable)
    assert where in finding.where
    assert what in finding.what
    assert finding.remedy in str(finding)


@pytest.fixture
def traced(monkeypatch):
    from langsmith.utils import get_env_var

    def switch_on(name):
        monkeypatch.setenv(name, "true")
        get_env_var.cache_clear()

    get_env_var.cache_clear()
    yield switch_on
    monkeypatch.undo()
    get_env_var.cache_clear()


TRACING = ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"]
RECORDED = {
    "model": (PROMPT | OURS | StrOutputParser(), "chain"),
    "local": (PROMPT | NEAR, "chain"),
    "documents": (PrivateHead(SESSION) | RETRIEVER, "chain"),
    "documents in the middle": (PrivateHead(SESSION) | PROMPT | NEAR | RETRIEVER | str, "step 2"),
}


@pytest.mark.parametrize("name", TRACING)
@pytest.mark.parametrize("chain", RECORDED)
def test_tracing_that_the_environment_switched_on(chain, name, traced):
    traced(name)
    runnable, where = RECORDED[chain]
    [finding] = check_chain(runnable)
    assert finding.where.endswith(where)
    assert finding.what.startswith("LangSmith records raw text")
    with untraced():
        assert not check_chain(runnable)


@pytest.mark.parametrize("chain", ["head", "recorded behind the head"])
def test_a_trace_that_has_the_release_or_was_allowed(chain, traced):
    traced("LANGSMITH_TRACING")
    assert not check_chain(FINE[chain])
    assert not check_chain(OURS)
    assert not check_chain(INFER.with_config(tags=["x"]) | StrOutputParser())


def test_models_and_retrievers_may_be_declared_local():
    assert not check_chain(PROMPT | REMOTE, local=[REMOTE])
    assert not check_chain(OUTSIDE, local=[OUTSIDE])


def test_only_a_runnable_is_taken():
    with pytest.raises(ParameterError, match="expected a Runnable, got function"):
        check_chain(closing_over)


# agents ------------------------------------------------------------------------------------------


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
        self.models = {"first": [functools.partial(model.invoke, config=None)]}

    def ask(self, q: str) -> str:
        """Asks a model in a field."""
        return self.models["first"][0](q).text


def protected(*middleware, tools=()):
    return create_agent(REMOTE, [*tools], middleware=[*middleware, DPAgentMiddleware(SESSION)])


def wheres(agent, **options):
    return [finding.where for finding in check_chain(agent, **options)]


def test_a_protected_agent_has_no_findings():
    assert not check_chain(protected(PIIMiddleware("email")))
    assert not check_chain(PrivateHead(SESSION) | protected())
    assert not check_chain(create_agent(OURS))
    assert not check_chain(create_agent(NEAR))


def test_an_agents_own_model_without_the_middleware():
    [finding] = check_chain(create_agent(REMOTE))
    assert finding.where == "chain, model"
    assert finding.what == "ChatOpenAI is sent raw text"
    assert not check_chain(create_agent(REMOTE), local=[REMOTE])


@over(
    "kind",
    [SummarizationMiddleware, LLMToolSelectorMiddleware, LLMToolEmulator, ModelFallbackMiddleware],
)
def test_middleware_with_a_model_of_its_own(kind):
    def agent(model):
        layer = kind(model) if kind is ModelFallbackMiddleware else kind(model=model)
        return protected(layer, tools=[by_closure(None)])

    found = {finding.what for finding in check_chain(agent(REMOTE))}
    assert found == {"ChatOpenAI is sent raw text"}
    assert not check_chain(agent(NEAR))
    assert not check_chain(agent(OURS))


TOOLS = {
    "closure": by_closure,
    "client": lambda model: lambda_tool(model.root_client),
    "field and partial": lambda model: tool(Helper(model).ask),
    "agent": lambda model: by_agent(create_agent(model)),
    "behind a boundary": lambda model: by_closure((DPChatModel(SESSION, model) | str).then),
    "private answer": lambda model: by_closure(INFER | model),
}


def lambda_tool(client):
    @tool
    def ask(q: str) -> str:
        """Asks without LangChain."""
        return client.responses.create(input=q).output_text

    return ask


@over("make", TOOLS.values())
def test_wherever_a_tool_has_its_model(make):
    [where] = wheres(protected(tools=[make(REMOTE)]))
    assert where.startswith("chain, tools")


@over("held", [OURS, PrivateHead(SESSION) | REMOTE, protected()])
def test_what_releases_before_it_sends_is_fine(held):
    assert not check_chain(protected(tools=[by_closure(held)]))


def test_agents_in_a_graph():
    graph = StateGraph(MessagesState)
    graph.add_node("worker", create_agent(REMOTE))
    ask = REMOTE.invoke
    graph.add_node("writer", lambda state: {"messages": [ask(state["messages"])]})
    graph.add_edge(START, "worker")
    graph.add_edge("worker", "writer")
    graph.add_edge("writer", END)
    assert wheres(graph.compile()) == ["chain, worker, model", "chain, writer"]
