"""The shared service in LlamaIndex: same rows, one worker, nothing recorded."""

import asyncio

import numpy as np
import pytest
from llama_index.core.schema import TextNode
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index_dp_middleware import ServiceEmbedding
from support.cases import over
from support.contract import Probe
from support.text_vectors import vector

import dp_middleware as dp
from dp_middleware.models.trust import Location, locate


class Model:
    batch = 64
    model = "own"
    location = Location()
    fails = False

    def open(self):
        return self.encode

    def encode(self, texts):
        if self.fails:
            raise ValueError(f"cannot embed {texts}")
        return [vector(text) for text in texts]


@pytest.fixture
def probe(tmp_path, capsys):
    with Probe(tmp_path, captured=capsys.readouterr) as found:
        yield found


CALLS = {
    "get_text_embedding": lambda e, t: e.get_text_embedding(t),
    "get_query_embedding": lambda e, t: e.get_query_embedding(t),
    "get_text_embedding_batch": lambda e, t: e.get_text_embedding_batch(["x", t])[1],
    "agg": lambda e, t: e.get_agg_embedding_from_queries([t]),
    "call": lambda e, t: e([TextNode(text=t)])[0].embedding,
    "acall": lambda e, t: asyncio.run(e.acall([TextNode(text=t)]))[0].embedding,
    "aget_text_embedding": lambda e, t: asyncio.run(e.aget_text_embedding(t)),
    "aget_query_embedding": lambda e, t: asyncio.run(e.aget_query_embedding(t)),
    "aagg": lambda e, t: asyncio.run(e.aget_agg_embedding_from_queries([t])),
    "abatch": lambda e, t: asyncio.run(e.aget_text_embedding_batch(["x", t]))[1],
}


@pytest.fixture
def service():
    return dp.EmbeddingService.of(Model())


@over("call", CALLS.values())
def test_rows_of_the_service_and_no_record(call, service, probe):
    found, text = ServiceEmbedding(service), probe.new_text()
    unit = np.array(vector(text)) / np.linalg.norm(vector(text))
    np.testing.assert_allclose(call(found, text), unit, atol=1e-6)
    assert not probe.leaks(adapter=found)


@over("call", CALLS.values())
def test_errors_hold_no_text(call, probe):
    model = Model()
    service, model.fails = dp.EmbeddingService.of(model), True
    with pytest.raises(dp.EmbeddingError, match="failed with ValueError") as raised:
        call(ServiceEmbedding(service), probe.private_text)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert not probe.leaks(error=str(raised.value))


def test_it_says_where_the_model_runs_and_keeps_no_text(service):
    class Near(Model):
        location = Location(hosts=frozenset({"127.0.0.1"}))

    found = ServiceEmbedding(service)
    assert locate(found) == Location()
    assert locate(ServiceEmbedding(dp.EmbeddingService.of(Near()))) == Near.location
    found.embeddings_cache = SimpleKVStore()
    with pytest.raises(dp.ParameterError, match="embeddings_cache"):
        found.get_text_embedding("red")
    with pytest.raises(dp.ParameterError, match=r"dp\.EmbeddingService"):
        ServiceEmbedding(Model())
    assert ServiceEmbedding().service.backend == dp.EmbeddingService().backend
