"""DPEmbedding: released vectors, one charge per text, nothing recorded."""

import asyncio

import numpy as np
import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode
from llama_index_dp_middleware import DPEmbedding

import dp_middleware as dp

RESPONSE = dp.VectorResponse.fitted(np.random.default_rng(1).normal(size=(60, 6)), epsilon=3.0)


def model_of(probe):
    own = probe.sanitizer()
    inner = MockEmbedding(embed_dim=6)
    return DPEmbedding(RESPONSE, inner, ledger=own.ledger, subject=own.subject)


def test_every_way_of_embedding_releases_and_charges(probe):
    model, nodes = model_of(probe), [TextNode(text=probe.new_text())]
    vectors = [
        model.get_text_embedding(probe.new_text()),
        model.get_query_embedding(probe.new_text()),
        *model.get_text_embedding_batch([probe.new_text()]),
        asyncio.run(model.aget_query_embedding(probe.new_text())),
        model(nodes)[0].embedding,
    ]
    assert len({tuple(vector) for vector in vectors}) == 5  # the mock gives one for all
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    epsilon = dp.certify(RESPONSE).epsilon
    assert [row.epsilon * 1e-12 for row in probe.charges] == pytest.approx([epsilon] * 5)
    assert not probe.leaks(repr=repr(model), vectors=vectors)
    probe.exhaust_budget()
    with pytest.raises(dp.BudgetExhausted) as caught:
        model_of(probe).get_query_embedding(probe.new_text())
    assert not probe.leaks(error=repr(caught.value))


def test_no_pipeline_gives_one_release_for_another_text(tmp_path):
    """Its cache knows texts by content: equal ones would get equal vectors, and for nothing."""
    ledger = dp.PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db", budget=100.0)
    model = DPEmbedding(RESPONSE, MockEmbedding(embed_dim=6), ledger=ledger, subject="ann")
    pipeline = IngestionPipeline(transformations=[model])
    vectors = [
        pipeline.run(nodes=[TextNode(text="my secret", id_=name)])[0].embedding for name in "ab"
    ]
    assert vectors[0] != vectors[1]
    assert len(ledger.rows("ann")) == 2
    assert {row.unit for row in ledger.rows("ann")} == {"text"}
    with pytest.raises(dp.ParameterError, match=r"dp\.VectorResponse"):
        DPEmbedding("epsilon", MockEmbedding(embed_dim=6))
