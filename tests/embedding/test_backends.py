"""Embedding models of frameworks behind the service: trust and silence."""

import logging
from typing import Any, ClassVar

import numpy as np
import pytest
from support.cases import refuses
from support.text_vectors import vector
from support.texts import CANARY

import dp_middleware as dp
from dp_middleware.frameworks import embedding_service
from dp_middleware.models.trust import Location, locate

TEXTS = [f"{CANARY} number {k}" for k in range(3)]


def unit(texts):
    rows = np.array([vector(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Encoder:
    """As sentence-transformers models are used."""

    location = Location()

    def encode(self, texts):
        return np.array([vector(text) for text in texts])


class Remote(Encoder):
    """Ones own class that calls a host."""

    def __init__(self):
        self.base_url = "https://evil.example/v1"


def test_an_object_of_ones_own():
    own = Encoder()
    service = dp.EmbeddingService.of(own)
    assert dp.EmbeddingService.of(service) is service
    assert embedding_service(own) is service
    assert dp.EmbeddingService.of(Encoder()) is not service
    np.testing.assert_allclose(service.encode(TEXTS), unit(TEXTS), atol=1e-6)
    assert repr(service) == "EmbeddingService.of(Given(Encoder))"
    refuses("expected an object with encode", embedding_service, 3, object(), None)
    remote = Remote()
    for model in (remote, dp.EmbeddingService.of(remote)):
        with pytest.raises(dp.UntrustedHost, match=r"evil\.example"):
            embedding_service(model)
        assert embedding_service(model, trusted_hosts=["evil.example"]).encode(["x"]).size


class Loud:
    """A mixin: says in its log and its errors what it is given."""

    log: ClassVar = logging.getLogger("openai")  # as packages do when they are imported

    def heard(self, texts: list[str]) -> list[list[float]]:
        self.log.warning("Request options: %s", texts)
        if getattr(Loud, "fails", False):
            raise ValueError(f"cannot embed {texts}")
        return [vector(text) for text in texts]


def langchain_model():
    core = pytest.importorskip("langchain_core.embeddings")

    class Mine(core.Embeddings, Loud):
        location = Location()

        def embed_documents(self, texts):
            return self.heard(texts)

        def embed_query(self, text):
            raise AssertionError

    return Mine()


def llama_index_model(**fields):
    base = pytest.importorskip("llama_index.core.base.embeddings.base")

    class Mine(base.BaseEmbedding, Loud):
        location: ClassVar = Location()

        def _get_text_embedding(self, text: str) -> Any:
            return self.heard([text])[0]

        def _get_query_embedding(self, query: str) -> Any:
            raise AssertionError

        async def _aget_query_embedding(self, query: str) -> Any:
            raise AssertionError

    return Mine(**fields)


def own_model():
    class Own(Loud):
        location = Location()

        def encode(self, texts):
            return self.heard(texts)

    return Own()


@pytest.mark.parametrize("make", [langchain_model, llama_index_model, own_model])
def test_models_leave_no_record(make, monkeypatch, tmp_path):
    from support.contract import Probe

    with Probe(tmp_path) as probe:
        model = make()
        service = embedding_service(model)
        texts = [probe.private_text, probe.new_text()]
        np.testing.assert_allclose(service.encode(texts), unit(texts), atol=1e-6)
        assert embedding_service(model) is service
        monkeypatch.setattr(Loud, "fails", True, raising=False)
        with pytest.raises(dp.EmbeddingError, match="failed with ValueError"):
            service.encode(texts)
        assert not probe.leaks(service=service)
        with pytest.raises(ValueError, match="cannot embed"):
            model.heard(texts)
        assert probe.leaks()  # called directly, its log is recorded
        assert locate(service.backend) == Location()


def cache_backed(inner):
    """As ``langchain_classic`` makes it, which is not installed here."""
    core = pytest.importorskip("langchain_core.embeddings")
    stores = pytest.importorskip("langchain_core.stores")

    def embed_documents(self, texts):
        raise AssertionError

    body = {"__module__": "langchain_classic.embeddings.cache", "embed_documents": embed_documents}
    kind = type("CacheBackedEmbeddings", (core.Embeddings,), {**body, "embed_query": None})
    found = kind()
    found.underlying_embeddings = inner
    found.document_embedding_store = stores.InMemoryByteStore()
    return found


def around(model):
    """A wrapper of ones own, and an own encoder that has one."""
    outer = langchain_model()
    outer.models = [model]
    own = Encoder()
    own.embedder = outer
    return [model, outer, own]


def test_a_model_that_keeps_vectors_by_digests_of_texts_is_refused():
    models = around(cache_backed(langchain_model()))
    refuses(r"CacheBackedEmbeddings.*underlying", embedding_service, *models)
    service = embedding_service(langchain_model())
    service.backend.inner.inner = cache_backed(langchain_model())  # made so later
    with pytest.raises(dp.EmbeddingError, match="CacheBackedEmbeddings"):
        service.encode(TEXTS)


def test_a_model_with_a_cache_of_texts_is_refused():
    kv = pytest.importorskip("llama_index.core.storage.kvstore")
    models = around(llama_index_model(embeddings_cache=kv.SimpleKVStore()))
    refuses("embeddings_cache", embedding_service, *models)
    later = llama_index_model()
    service = embedding_service(later)
    service.encode(TEXTS)
    later.embeddings_cache = kv.SimpleKVStore()
    with pytest.raises(dp.EmbeddingError, match="embeddings_cache"):
        service.encode(TEXTS)
    assert not later.embeddings_cache.get_all("embeddings")


def test_a_missing_model_without_internet_says_what_to_do(monkeypatch, tmp_path):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr("dp_middleware._files.package_folder", lambda *_: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for model, told in (("all-MiniLM-L6-v2", r"pip install '\.\[m"), ("a/none-such", "name its")):
        service = dp.EmbeddingService(model, device="cpu:0")  # no other has it open
        with pytest.raises(dp.EmbeddingError, match=f"model cannot be loaded: the model .*{told}"):
            service.encode(["a"])
