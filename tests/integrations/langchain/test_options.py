"""What every adapter takes: a session, its own options, an epsilon and a payer for a call."""

import math

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from langchain_core.runnables import ConfigurableField, RunnableLambda
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
from support.langchain import MODELS, infer

import dp_middleware as dp
from dp_middleware.errors import ParameterError, UntrustedHost

EMBEDDINGS = DeterministicFakeEmbedding(size=3)
FAR = ChatOpenAI(model="m", base_url="https://api.example/v1", api_key="k")


def retriever():
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


WITH_CONFIG = {
    "head": lambda s, p, **o: PrivateHead(s, **o),
    "chat model": lambda s, p, **o: DPChatModel(s, p.chat_openai(), **o),
    "extraction": lambda s, p, **o: infer(p, s, **o),
    "retriever": lambda s, p, **o: DPRetriever(s, retriever(), **o),
    "agent": Agent,
}
MAKERS = {
    **WITH_CONFIG,
    "documents": lambda s, p, **o: DPDocumentTransformer(s, **o),
    "embeddings": lambda s, p, **o: DPEmbeddings(s, EMBEDDINGS, **o),
}


def spent_by(probe):
    return [row.epsilon * 1e-12 for row in probe.charges]


@pytest.mark.parametrize("kind", WITH_CONFIG)
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
    ("documents", {"metadata": "source"}),
    ("documents", {"metadata": [1]}),
    ("retriever", {"public_metadata": "source"}),
]


def test_options_and_parts_are_checked(probe):
    session = probe.session()
    for kind, options in WRONG:
        with pytest.raises((ParameterError, ValueError), match="expected"):
            MAKERS[kind](session, probe, **options)
    for make in MAKERS.values():
        with pytest.raises(ParameterError, match=r"a dp\.Session or a dp\.Sanitizer, got str"):
            make("session", probe)
    for make in (
        lambda: DPChatModel(session, "gpt"),
        lambda: DPRetriever(session, InMemoryVectorStore(EMBEDDINGS)),
        lambda: DPEmbeddings(session, session),
    ):
        with pytest.raises(ParameterError, match="expected"):
            make()
    for kind in ("chat model", "extraction", "retriever"):
        with pytest.raises(ValueError, match="sesion") as caught:
            MAKERS[kind](session, probe, sesion=probe.canary)
        assert not probe.leaks(error=caught.value)
        assert MAKERS[kind](session, probe).model_copy().session is session
    for kind in ("extraction", "agent"):
        with pytest.raises(UntrustedHost, match=r"api\.example"):
            MAKERS[kind](session, probe, extractor=FAR)
        MAKERS[kind](session, probe, extractor=FAR, trusted_hosts=["api.example"])


# one adapter for several users: who pays is told by the config, and nothing is shared -----------


def config(subject, **more):
    return {"configurable": {"dp_subject": subject, **more}}


@pytest.fixture
def ledger(tmp_path):
    return dp.PrivacyLedger(f"sqlite:///{tmp_path / 'books.db'}", budget=9.0)


def session_on(ledger, probe, **options):
    given = probe.sanitizer()
    sanitizer = dp.Sanitizer(given.mechanism, given.space, ledger=ledger, subject="all")
    return dp.Session(sanitizer, **{"subjects": "many", **options})


@pytest.mark.parametrize("kind", MODELS)
def test_each_subject_pays_for_itself_and_shares_nothing(kind, probe, ledger):
    model = MODELS[kind](probe, session_on(ledger, probe))
    messages = [HumanMessage(probe.private_text, id="m")]
    sent = {}
    for subject in ("ann", "bob", "ann"):
        answer = model.invoke(messages, config(subject))
        text = probe.remote.prompts[-1] if probe.remote.prompts else str(answer)
        assert sent.setdefault(subject, text) == text
    assert sent["ann"] != sent["bob"]
    assert ledger.spent("ann") == ledger.spent("bob") > 0
    assert ledger.spent("all") == 0
    model.invoke(messages, config("ann", dp_epsilon=0.5))
    assert ledger.spent("bob") < ledger.spent("ann") <= ledger.spent("bob") + 0.5
    assert not probe.leaks()


NO_EPSILON = [0, -1.0, math.nan, math.inf, "much", True, [1], 10**400]
NOT_ASKED = [
    *(({"dp_epsilon": value}, "dp_epsilon > 0") for value in NO_EPSILON),
    *(({"dp_subject": value}, "subject") for value in ("", 3)),
    *(({name: "ann"}, "subject") for name in ("dp_subjet", "dp_eps")),
]


@over("kind", MODELS)
def test_what_a_config_cannot_ask_for_is_refused(kind, probe, ledger):
    model = MODELS[kind](probe, session_on(ledger, probe, subjects="one"))
    with pytest.raises(ParameterError, match='subjects="many"'):
        model.invoke([HumanMessage("w1x")], config("ann"))
    model = MODELS[kind](probe, session_on(ledger, probe))
    for wrong, told in NOT_ASKED:
        with pytest.raises(ParameterError, match=told):
            model.invoke([HumanMessage("w1x")], {"configurable": wrong})
    assert not probe.remote.requests
    with pytest.raises(ParameterError, match="subjects"):
        session_on(ledger, probe, subjects="some")


def test_what_has_no_config_charges_the_subject_of_the_run_around_it(probe, ledger):
    session = session_on(ledger, probe)
    documents = DPDocumentTransformer(session)
    vectors = DPEmbeddings(session, EMBEDDINGS)

    def work(text):
        vectors.embed_query(text)
        return documents.transform_documents([Document(text, id="d")])[0].page_content

    step, text = RunnableLambda(work), "w1x w2x w3x w4x"
    assert step.invoke(text, config("ann")) == step.invoke(text, config("ann"))
    assert ledger.spent("ann") > 0
    assert ledger.spent("all") == 0
