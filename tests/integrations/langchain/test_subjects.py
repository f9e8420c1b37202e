"""One adapter for several users: who pays is told by the config, and nothing is shared."""

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_dp_middleware import (
    DPDocumentTransformer,
    DPEmbeddings,
)
from support.langchain import MODELS

import dp_middleware as dp
from dp_middleware.errors import EventRefused, ParameterError


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


@pytest.mark.parametrize("kind", MODELS)
def test_an_answer_to_one_subject_is_unknown_to_another(kind, probe, ledger):
    model = MODELS[kind](probe, session_on(ledger, probe))
    history = [HumanMessage("w1x", id="m")]
    history += [model.invoke(history, config("ann")), HumanMessage("w2x", id="n")]
    model.invoke(history, config("ann"))
    with pytest.raises(EventRefused):
        model.invoke(history, config("bob"))


@pytest.mark.parametrize("kind", MODELS)
def test_a_subject_needs_leave_and_unknown_names_are_refused(kind, probe, ledger):
    model = MODELS[kind](probe, session_on(ledger, probe, subjects="one"))
    with pytest.raises(ParameterError, match='subjects="many"'):
        model.invoke([HumanMessage("w1x")], config("ann"))
    model = MODELS[kind](probe, session_on(ledger, probe))
    for wrong in ({"dp_subjet": "ann"}, {"dp_subject": ""}, {"dp_subject": 3}, {"dp_eps": 1}):
        with pytest.raises(ParameterError, match="subject"):
            model.invoke([HumanMessage("w1x")], {"configurable": wrong})
    assert not probe.remote.requests
    with pytest.raises(ParameterError, match="subjects"):
        session_on(ledger, probe, subjects="some")


def test_what_has_no_config_charges_the_subject_of_the_run_around_it(probe, ledger):
    session = session_on(ledger, probe)
    documents = DPDocumentTransformer(session)
    vectors = DPEmbeddings(session, DeterministicFakeEmbedding(size=2))

    def work(text):
        vectors.embed_query(text)
        return documents.transform_documents([Document(text, id="d")])[0].page_content

    step = RunnableLambda(work)
    assert step.invoke("w1x w2x w3x w4x", config("ann")) == step.invoke(
        "w1x w2x w3x w4x", config("ann")
    )
    assert ledger.spent("ann") > 0
    assert ledger.spent("all") == 0
