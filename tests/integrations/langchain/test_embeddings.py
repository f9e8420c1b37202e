"""DPEmbeddings: vectors of released text, in LangChain's own test suites and under the contract."""

import asyncio

import numpy as np
import pytest
from support.contract import Probe, TraceSafeContract

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import Location

pytest.importorskip("langchain_tests")

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_dp_middleware import DPEmbeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from support.langchain import SANITIZER, WORDS


class _Standard:
    @property
    def embeddings_class(self):
        return DPEmbeddings

    @property
    def embedding_model_params(self):
        return {"session": SANITIZER, "inner": DeterministicFakeEmbedding(size=6)}


class TestStandardUnit(_Standard, EmbeddingsUnitTests):
    """LangChain's own, nothing overridden."""


@pytest.mark.asyncio  # for those of its tests that are async
@pytest.mark.filterwarnings("ignore:.*it is not an async function")
class TestStandardIntegration(_Standard, EmbeddingsIntegrationTests):
    """LangChain's own, nothing overridden."""


CALLS = {
    "embed_query": lambda e, p: e.embed_query(p.new_text()),
    "embed_documents": lambda e, p: e.embed_documents([p.new_text(), p.new_text()]),
    "aembed_query": lambda e, p: e.aembed_query(p.new_text()),
    "aembed_documents": lambda e, p: e.aembed_documents([p.new_text(), p.new_text()]),
    "vector_store": lambda e, p: InMemoryVectorStore(e).similarity_search(p.new_text()),
}
REFUSALS = {"no text": lambda e, p: e.embed_documents([p.private_text, {"x": p.canary}])}


class TestContract(TraceSafeContract):
    calls = CALLS
    refusals = REFUSALS

    def adapter(self, probe: Probe) -> DPEmbeddings:
        return DPEmbeddings(probe.session(), probe.openai_embeddings())


def test_texts_push_nothing_out_of_the_memo():
    session, text = dp.Session(SANITIZER, capacity=2), " ".join(WORDS)
    kept = session.release("m", "user", text)
    inner = DeterministicFakeEmbedding(size=6)
    assert len(DPEmbeddings(session, inner).embed_documents(["w1x"] * 5)) == 5
    assert session.release("m", "user", text) == kept


def test_equal_texts_are_independent_releases():
    class Inner(DeterministicFakeEmbedding):
        seen: list = []  # pydantic copies it

        def embed_documents(self, texts):
            self.seen.extend(texts)
            return super().embed_documents(texts)

    inner = Inner(size=3, seen=[])
    texts = [" ".join(WORDS)] * 3
    assert len(DPEmbeddings(SANITIZER, inner).embed_documents(texts)) == 3
    assert len(set(inner.seen)) == 3
    assert not set(inner.seen) & set(texts)


RESPONSE = dp.VectorResponse.fitted(np.random.default_rng(1).normal(size=(60, 6)), epsilon=3.0)


def test_nothing_raw_is_recorded_of_a_vector(tmp_path):
    with Probe(tmp_path) as probe:
        own = probe.sanitizer()
        inner = DeterministicFakeEmbedding(size=6)
        adapter = DPEmbeddings(RESPONSE, inner, ledger=own.ledger, subject=own.subject)
        for name, call in CALLS.items():
            value = call(adapter, probe)
            if asyncio.iscoroutine(value):
                value = asyncio.run(value)
            if name != "vector_store":
                assert not probe.leaks(value=value, repr=repr(adapter)), name
        with pytest.raises(dp.DPMiddlewareError) as caught:
            REFUSALS["no text"](adapter, probe)
        assert not probe.leaks(error=repr(caught.value))
        assert len(probe.charges) == 7


def test_a_vector_is_charged_once_per_text_before_it_is_drawn(tmp_path):
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=10.0)
    inner = DeterministicFakeEmbedding(size=6)
    embeddings = DPEmbeddings(RESPONSE, inner, ledger=ledger, subject="ana")
    first, second = embeddings.embed_documents(["equal", "equal"])
    assert first != second
    assert np.linalg.norm(first) == pytest.approx(1)
    assert ledger.spent("ana") == pytest.approx(2 * dp.certify(RESPONSE).epsilon)
    embeddings.embed_query("third")
    with pytest.raises(dp.BudgetExhausted):
        embeddings.embed_query("fourth")
    assert embeddings.embed_documents([]) == []


def test_raw_text_goes_to_no_remote_model_for_a_vector():
    from langchain_openai import OpenAIEmbeddings

    elsewhere = OpenAIEmbeddings(api_key="x", base_url="https://embeddings.example/v1")
    with pytest.raises(dp.UntrustedHost, match=r"embeddings\.example"):
        DPEmbeddings(RESPONSE, elsewhere)


def test_options_that_do_not_belong_together_are_refused():
    inner = DeterministicFakeEmbedding(size=6)
    for first, options in (
        (RESPONSE, {"subject": "ana"}),
        (SANITIZER, {"subject": "ana"}),
        (SANITIZER, {"trusted_hosts": ["example.org"]}),
    ):
        with pytest.raises(ParameterError, match="expected"):
            DPEmbeddings(first, inner, **options)
    with pytest.raises(ParameterError, match="vectors of 6 numbers"):
        DPEmbeddings(RESPONSE, DeterministicFakeEmbedding(size=5)).embed_query("text")


def test_the_shared_service_embeds_for_a_vector():
    class Near:
        location = Location()

        def encode(self, texts):
            return [[1.0] * 6 for _ in texts]

    embeddings = DPEmbeddings(RESPONSE, dp.EmbeddingService.of(Near()))
    assert len(embeddings.embed_query("text")) == 6
