"""DPEmbeddings: vectors of released text, in LangChain's own test suites and under the contract."""

import asyncio

import numpy as np
import pytest
from support.contract import TraceSafeContract

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import Location

pytest.importorskip("langchain_tests")

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import DPEmbeddings
from langchain_openai import OpenAIEmbeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from support.langchain import SANITIZER, WORDS

INNER = DeterministicFakeEmbedding(size=6)
RESPONSE = dp.VectorResponse.fitted(np.random.default_rng(1).normal(size=(60, 6)), epsilon=3.0)


class _Standard:
    @property
    def embeddings_class(self):
        return DPEmbeddings

    @property
    def embedding_model_params(self):
        return {"session": SANITIZER, "inner": INNER}


class TestStandardUnit(_Standard, EmbeddingsUnitTests):
    """LangChain's own, nothing overridden."""


@pytest.mark.asyncio  # for those of its tests that are async
@pytest.mark.filterwarnings("ignore:.*it is not an async function")
class TestStandardIntegration(_Standard, EmbeddingsIntegrationTests):
    """LangChain's own, nothing overridden."""


class TestContract(TraceSafeContract):
    calls = {
        "embed_query": lambda e, p: e.embed_query(p.new_text()),
        "embed_documents": lambda e, p: e.embed_documents([p.new_text(), p.new_text()]),
        "aembed_query": lambda e, p: e.aembed_query(p.new_text()),
        "aembed_documents": lambda e, p: e.aembed_documents([p.new_text(), p.new_text()]),
        "vector_store": lambda e, p: InMemoryVectorStore(e).similarity_search(p.new_text()),
    }
    refusals = {"no text": lambda e, p: e.embed_documents([p.private_text, {"x": p.canary}])}

    def adapter(self, probe):
        return DPEmbeddings(probe.session(), probe.openai_embeddings())


def test_equal_texts_are_independent_releases_and_push_nothing_out_of_the_memo():
    class Inner(DeterministicFakeEmbedding):
        seen: list = []  # pydantic copies it

        def embed_documents(self, texts):
            self.seen.extend(texts)
            return super().embed_documents(texts)

    session, inner, text = dp.Session(SANITIZER, capacity=2), Inner(size=3), " ".join(WORDS)
    kept = session.release("m", "user", text)
    assert len(DPEmbeddings(session, inner).embed_documents([text] * 3)) == 3
    assert len({*inner.seen, text}) == 4
    assert session.release("m", "user", text) == kept


def test_nothing_raw_is_recorded_of_a_vector(probe):
    own = probe.sanitizer()
    embeddings = DPEmbeddings(RESPONSE, INNER, ledger=own.ledger, subject=own.subject)
    for name, call in TestContract.calls.items():
        value = call(embeddings, probe)
        value = asyncio.run(value) if asyncio.iscoroutine(value) else value
        if name != "vector_store":  # which finds what it holds
            assert not probe.leaks(value=value, repr=repr(embeddings)), name
    with pytest.raises(dp.DPMiddlewareError) as caught:
        TestContract.refusals["no text"](embeddings, probe)
    assert not probe.leaks(error=caught.value)
    assert len(probe.charges) == 7


def test_a_vector_is_charged_once_per_text_before_it_is_drawn(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=10.0)
    embeddings = DPEmbeddings(RESPONSE, INNER, ledger=ledger, subject="ana")
    first, second = embeddings.embed_documents(["equal", "equal"])
    assert first != second
    assert np.linalg.norm(first) == pytest.approx(1)
    assert ledger.spent("ana") == pytest.approx(2 * dp.certify(RESPONSE).epsilon)
    embeddings.embed_query("third")
    with pytest.raises(dp.BudgetExhausted):
        embeddings.embed_query("fourth")
    assert embeddings.embed_documents([]) == []


def test_a_remote_model_for_a_vector_and_options_that_do_not_belong_together_are_refused():
    elsewhere = OpenAIEmbeddings(api_key="x", base_url="https://embeddings.example/v1")
    with pytest.raises(dp.UntrustedHost, match=r"embeddings\.example"):
        DPEmbeddings(RESPONSE, elsewhere)
    for first, options in (
        (RESPONSE, {"subject": "ana"}),
        (SANITIZER, {"subject": "ana"}),
        (SANITIZER, {"trusted_hosts": ["example.org"]}),
    ):
        with pytest.raises(ParameterError, match="expected"):
            DPEmbeddings(first, INNER, **options)
    with pytest.raises(ParameterError, match="vectors of 6 finite numbers"):
        DPEmbeddings(RESPONSE, DeterministicFakeEmbedding(size=5)).embed_query("text")


def test_the_shared_service_embeds_for_a_vector():
    class Near:
        location = Location()

        def encode(self, texts):
            return [[1.0] * 6 for _ in texts]

    assert len(DPEmbeddings(RESPONSE, dp.EmbeddingService.of(Near())).embed_query("text")) == 6
