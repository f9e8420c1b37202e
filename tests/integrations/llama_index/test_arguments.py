"""A misspelt option of an adapter raises: it is never ignored, and its value is not quoted."""

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_dp_middleware import (
    DPLLM,
    DPNodePostprocessor,
    DPQueryEngine,
    DPQueryTransform,
    DPTransform,
    ServiceEmbedding,
)
from support.cases import over
from support.llama_index import index_of


def engine():
    return RetrieverQueryEngine.from_args(index_of("w1x").as_retriever(), llm=MockLLM())


ADAPTERS = {
    "DPLLM": lambda session, **more: DPLLM(session, MockLLM(), **more),
    "DPTransform": DPTransform,
    "DPNodePostprocessor": DPNodePostprocessor,
    "DPQueryTransform": DPQueryTransform,
    "DPQueryEngine": lambda session, **more: DPQueryEngine(session, engine(), **more),
    "ServiceEmbedding": lambda session, **more: ServiceEmbedding(**more),
}


@over("make", ADAPTERS.values())
def test_an_unknown_option_is_refused(make, desk):
    with pytest.raises(TypeError, match="max_epsion") as caught:
        make(desk.session(), max_epsion=desk.canary)
    assert desk.canary not in str(caught.value)
