"""What every adapter takes: a session, its own options, and an epsilon for a call."""

import re

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import (
    DPAgentMiddleware,
    DPChatModel,
    DPDocumentTransformer,
    DPEmbeddings,
    DPRetriever,
    PrivateHead,
)
from langchain_openai import ChatOpenAI
from support.cases import over
from support.langchain import infer

from dp_middleware.errors import ParameterError, UntrustedHost

EMBEDDINGS = DeterministicFakeEmbedding(size=3)
FAR = ChatOpenAI(model="m", base_url="https://api.example/v1", api_key="k")


def retriever() -> BaseRetriever:
    index = InMemoryVectorStore(EMBEDDINGS)
    index.add_documents([Document("w1x", id="a")])
    return index.as_retriever()


class Agent:
    """An agent with the middleware, which is called as a Runnable."""

    def __init__(self, session, probe, **options):
        ours = DPAgentMiddleware(session, traced="allow", **options)
        self.agent = create_agent(probe.chat_openai(), middleware=[ours])

    def invoke(self, text, config):
        return self.agent.invoke({"messages": [HumanMessage(text)]}, config)


MAKERS = {
    "head": lambda s, p, **o: PrivateHead(s, **o),
    "chat model": lambda s, p, **o: DPChatModel(s, p.chat_openai(), **o),
    "extraction": lambda s, p, **o: infer(p, s, **o),
    "retriever": lambda s, p, **o: DPRetriever(s, retriever(), **o),
    "agent": Agent,
}
WITHOUT_CONFIG = {
    "documents": lambda s, p, **o: DPDocumentTransformer(s, **o),
    "embeddings": lambda s, p, **o: DPEmbeddings(s, EMBEDDINGS, **o),
}


def spent_by(probe):
    return [row.epsilon * 1e-12 for row in probe.charges]


@pytest.mark.parametrize("kind", MAKERS)
def test_the_epsilon_of_a_call_is_lowered_and_never_above_the_sessions(kind, probe):
    session = probe.session()
    own = session.sanitizer.certificate.epsilon
    adapter = MAKERS[kind](session, probe)
    for k, asked in enumerate([0.5, 99.0, None]):
        config = {"configurable": {"dp_epsilon": asked, "thread_id": str(k)}}
        adapter.invoke(probe.new_text(), config)
    kept = 1 if kind == "retriever" else 2  # the same document at the same epsilon
    assert spent_by(probe) == pytest.approx([0.5, own, own][: 1 + kept], abs=0.05)


def test_a_config_may_be_bound(probe):
    session = probe.session()
    PrivateHead(session).with_config(configurable={"dp_epsilon": 1.0}).invoke("secret")
    copies = infer(probe, session).configurable_fields(instruction=ConfigurableField(id="rule"))
    copies.invoke("secret", {"configurable": {"dp_epsilon": 0.5, "rule": "Be brief."}})
    assert spent_by(probe) == pytest.approx([1.0, 0.5], abs=0.05)


WRONG = [
    *(("head", {"keys": keys}) for keys in ("question", [], "")),
    *(("head", {name: True}) for name in ("system", "ai", "answers")),
    *((kind, {"tools": "look_up"}) for kind in ("head", "chat model", "agent")),
    ("agent", {"public_tools": "x"}),
    ("documents", {"metadata": "source"}),
    ("documents", {"metadata": [1]}),
    ("retriever", {"public_metadata": "source"}),
]


@over("kind, options", WRONG)
def test_options_are_checked(kind, options, probe):
    with pytest.raises((ParameterError, ValueError), match="expected"):
        {**MAKERS, **WITHOUT_CONFIG}[kind](probe.session(), probe, **options)


@pytest.mark.parametrize("kind", [*MAKERS, *WITHOUT_CONFIG])
def test_a_session_releases(kind, probe):
    with pytest.raises(ParameterError, match=r"expected a dp\.Session or a dp\.Sanitizer, got str"):
        {**MAKERS, **WITHOUT_CONFIG}[kind]("session", probe)


@pytest.mark.parametrize("kind", ["chat model", "extraction", "retriever"])
def test_a_misspelt_option_is_refused_and_not_quoted(kind, probe):
    with pytest.raises(ValueError, match="sesion") as caught:
        MAKERS[kind](probe.session(), probe, sesion=probe.canary)
    assert not probe.leaks(error=caught.value)
    model = MAKERS[kind](probe.session(), probe)
    assert model.model_copy().session is model.session


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: DPChatModel(s, "gpt"), "expected inner= a chat model, got str"),
        (lambda s: DPRetriever(s, InMemoryVectorStore(EMBEDDINGS)), "as_retriever"),
        (lambda s: DPEmbeddings(s, s), "LangChain embedding model"),
    ],
)
def test_the_other_part_is_checked(make, said, probe):
    with pytest.raises(ParameterError, match=re.escape(said)):
        make(probe.session())


@pytest.mark.parametrize("kind", ["extraction", "agent"])
def test_an_extractor_elsewhere_is_refused(kind, probe):
    with pytest.raises(UntrustedHost, match=r"api\.example"):
        MAKERS[kind](probe.session(), probe, extractor=FAR)
    MAKERS[kind](probe.session(), probe, extractor=FAR, trusted_hosts=["api.example"])


LARGE = [pytest.param(10**400, id="large"), pytest.param(10**5000, id="larger")]


@over("epsilon", [0, -1.0, float("nan"), float("inf"), "much", True, [1], *LARGE])
def test_an_epsilon_of_a_call_is_a_positive_number(epsilon, probe):
    with pytest.raises(ParameterError, match=r"dp_epsilon > 0"):
        PrivateHead(probe.session()).invoke("secret", {"configurable": {"dp_epsilon": epsilon}})
