"""check_chain names every place where raw input reaches what does not release it."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import (
    DPChatModel,
    DPRetriever,
    DPSanitizer,
    InferDPTChatModel,
    PrivateHead,
    check_chain,
    untraced,
)
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from support.cases import over

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
    "sanitizer": DPSanitizer(SESSION, traced="allow") | REMOTE,
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


@pytest.mark.parametrize("chain", ["head", "sanitizer", "recorded behind the head"])
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
