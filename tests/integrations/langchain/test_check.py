"""check_chain names every place where raw input reaches what does not release it."""

import functools

import pytest
from langchain.agents import create_agent, middleware as layers
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
from langsmith.utils import get_env_var
from support.cases import over
from support.langchain import SANITIZER

import dp_middleware as dp
from dp_middleware.errors import ParameterError

SESSION = dp.Session(SANITIZER)
PROMPT = ChatPromptTemplate.from_template("{q}")
REMOTE = ChatOpenAI(model="m", api_key="k")
NEAR = ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:9/v1")
OURS = DPChatModel(SESSION, REMOTE)
HEAD = PrivateHead(SESSION)
RETRIEVER = InMemoryVectorStore(DeterministicFakeEmbedding(size=2)).as_retriever()
OUTSIDE = InMemoryVectorStore(OpenAIEmbeddings(model="m", api_key="k")).as_retriever()
INFER = InferDPTChatModel(
    SESSION,
    remote=REMOTE,
    extractor=dp.chat_model(lambda messages: "x", local=True),
    traced="allow",
)
SENT = "ChatOpenAI is sent raw text"


class Handler(BaseCallbackHandler):
    """Records."""


def closing_over(model):
    return RunnableLambda(lambda text: model.invoke(text))


def by_closure(model):
    @tool
    def ask(q: str) -> str:
        """Asks a model of its closure."""
        return model.invoke(q).text

    return ask


def protected(*middleware, tools=()):
    return create_agent(REMOTE, [*tools], middleware=[*middleware, DPAgentMiddleware(SESSION)])


FINE = [
    PrivateHead(SESSION, keys=["q"]) | PROMPT | REMOTE | StrOutputParser(),
    PROMPT | OURS | StrOutputParser(),
    PROMPT | OURS.bind(stop=["x"]).with_fallbacks([REMOTE]),
    OURS | REMOTE,
    PROMPT | NEAR,
    DPRetriever(SESSION, RETRIEVER, query="public") | RunnableLambda(str) | REMOTE,
    HEAD | (PROMPT | REMOTE).with_config(callbacks=[Handler()]),
    HEAD | closing_over(REMOTE),
    protected(layers.PIIMiddleware("email")),
    HEAD | protected(),
    create_agent(OURS),
    create_agent(NEAR),
    *(protected(tools=[by_closure(held)]) for held in (OURS, HEAD | REMOTE, protected())),
]


@over("chain", FINE)
def test_a_chain_that_releases_first_has_no_findings(chain):
    assert check_chain(chain) == []


class Helper:
    """A component of the user's own."""

    def __init__(self, model):
        self.models = {"first": [functools.partial(model.invoke, config=None)]}

    def ask(self, q: str) -> str:
        """Asks a model in a field."""
        return self.models["first"][0](q).text


def by_client(client):
    @tool
    def ask(q: str) -> str:
        """Asks without LangChain."""
        return client.responses.create(input=q).output_text

    return ask


def by_agent(agent):
    @tool
    def delegate(q: str) -> str:
        """Asks another agent."""
        return agent.invoke({"messages": [("user", q)]})["messages"][-1].text

    return delegate


BAD = [
    (PROMPT | REMOTE, "chain, step 1", SENT),
    (REMOTE.bind(stop=["x"]), "chain, bound", SENT),
    (HEAD | {"c": RETRIEVER, "q": RunnablePassthrough()} | PROMPT | REMOTE, "chain, step 2", SENT),
    ((PROMPT | OURS).with_fallbacks([PROMPT | REMOTE]), "fallbacks 0, step 1", SENT),
    ((PROMPT | REMOTE).with_retry(), "bound, step 1", SENT),
    (RunnablePassthrough.assign(a=PROMPT | REMOTE), "steps a, step 1", SENT),
    (RunnableBranch((lambda x: True, OURS), REMOTE), "default", SENT),
    (closing_over(REMOTE), "RunnableLambda", "ChatOpenAI"),
    (OUTSIDE, "chain", "VectorStoreRetriever is sent raw text"),
    (PROMPT | NEAR | REMOTE, "step 2", SENT),
    (INFER | REMOTE, "step 1", SENT),
    ((PROMPT | OURS).with_config(callbacks=[Handler()]), "chain", "Handler records"),
    ((PROMPT | OURS).with_listeners(on_start=print), "chain", "records raw"),
    ((OURS | str).then, "step 0", SENT),
    (REMOTE.map(), "bound", SENT),
    (create_agent(REMOTE), "chain, model", SENT),
    *(
        (protected(tools=[held]), "chain, tools", "")
        for held in (
            by_closure(REMOTE),
            by_closure((OURS | str).then),
            by_closure(INFER | REMOTE),
            tool(Helper(REMOTE).ask),
            by_agent(create_agent(REMOTE)),
            by_client(REMOTE.root_client),
        )
    ),
]


@over("chain, where, what", BAD)
def test_where_raw_input_goes_is_named(chain, where, what):
    [finding] = check_chain(chain)
    assert where in finding.where
    assert what in finding.what
    assert finding.remedy in str(finding)


@over(
    "kind",
    [
        layers.SummarizationMiddleware,
        layers.LLMToolSelectorMiddleware,
        layers.LLMToolEmulator,
        layers.ModelFallbackMiddleware,
    ],
)
def test_middleware_with_a_model_of_its_own(kind):
    def agent(model):
        layer = kind(model) if kind is layers.ModelFallbackMiddleware else kind(model=model)
        return protected(layer, tools=[by_closure(None)])

    assert {finding.what for finding in check_chain(agent(REMOTE))} == {SENT}
    assert not check_chain(agent(NEAR))
    assert not check_chain(agent(OURS))


def test_agents_in_a_graph():
    graph = StateGraph(MessagesState)
    graph.add_node("worker", create_agent(REMOTE))
    ask = REMOTE.invoke
    graph.add_node("writer", lambda state: {"messages": [ask(state["messages"])]})
    graph.add_edge(START, "worker")
    graph.add_edge("worker", "writer")
    graph.add_edge("writer", END)
    found = check_chain(graph.compile())
    assert [each.where for each in found] == ["chain, worker, model", "chain, writer"]


@pytest.fixture(params=["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
def traced(request, monkeypatch):
    monkeypatch.setenv(request.param, "true")
    get_env_var.cache_clear()
    yield
    monkeypatch.undo()
    get_env_var.cache_clear()


RECORDED = [
    (PROMPT | OURS | StrOutputParser(), "chain"),
    (PROMPT | NEAR, "chain"),
    (HEAD | RETRIEVER, "chain"),
    (HEAD | PROMPT | NEAR | RETRIEVER | str, "step 2"),
]


@over("chain, where", RECORDED)
def test_tracing_that_the_environment_switched_on(chain, where, traced):
    [finding] = check_chain(chain)
    assert finding.where.endswith(where)
    assert finding.what.startswith("LangSmith records raw text")
    with untraced():
        assert not check_chain(chain)


@over("chain", [FINE[0], FINE[6], OURS, INFER.with_config(tags=["x"]) | StrOutputParser()])
def test_a_trace_that_has_the_release_or_was_allowed(chain, traced):
    assert not check_chain(chain)


def test_models_and_retrievers_may_be_declared_local():
    for chain, local in ((PROMPT | REMOTE, REMOTE), (OUTSIDE, OUTSIDE)):
        assert not check_chain(chain, local=[local])
    assert not check_chain(create_agent(REMOTE), local=[REMOTE])


def test_only_a_runnable_is_taken():
    with pytest.raises(ParameterError, match="expected a Runnable, got function"):
        check_chain(closing_over)
