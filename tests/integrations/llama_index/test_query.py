"""Queries through real indexes and engines: one release per query, what stays local stays local."""

import asyncio
import copy
import pickle
from types import SimpleNamespace

import pytest
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_dp_middleware import DPNodePostprocessor, DPQueryEngine, DPQueryTransform
from support.cases import over
from support.contract import OpenAIServer
from support.llama_index import index_of

import dp_middleware as dp
from dp_middleware.models.trust import Location


class Remembering(BaseRetriever):
    """Gives its nodes and remembers the queries."""

    location = Location()

    def __init__(self, *nodes):
        super().__init__()
        self.nodes, self.seen = nodes, []

    def _retrieve(self, query_bundle):
        self.seen.append(query_bundle.query_str)
        return [NodeWithScore(node=node, score=0.9) for node in self.nodes]


def node(desk, number=0):
    return TextNode(id_=f"n{number}", text=f"{desk.private_text} {number}", metadata={"page": 3})


def engine_of(desk, *nodes, **options):
    return index_of(*nodes).as_query_engine(llm=desk.llama_openai(), **options)


def test_equal_queries_are_released_apart(desk):
    transform = DPQueryTransform(desk.session())
    bundles = [QueryBundle(desk.private_text) for _ in range(3)]
    found = [transform.run(each) for each in bundles]
    texts = {each.query_str for each in found} | {transform.run(desk.private_text).query_str}
    assert (len(texts), desk.charges) == (4, [5] * 4)
    assert found[0] == QueryBundle(found[0].query_str)  # no embedding, no text to embed
    bundles[0].query_str += " more"
    transform.run(bundles[0])
    assert len(desk.charges) == 5  # an edited one is a new release


def test_a_node_is_released_once(desk):
    """However often it is retrieved; scores are functions of raw text and do not pass."""
    step = DPNodePostprocessor(desk.session(), metadata=["page"])
    inner = engine_of(desk, node(desk), node(desk, 1), node_postprocessors=[step])
    for _ in range(2):
        response = inner.query("w1x w2x")
    assert desk.charges == [6, 6]
    assert not desk.remote.saw(desk.canary)
    assert len(set(desk.remote.bodies)) == 1
    assert [each.score for each in response.source_nodes] == [None, None]
    assert response.metadata == {"n0": {"page": 3}, "n1": {"page": 3}}
    assert all(each.node.text in desk.remote.prompts[0] for each in response.source_nodes)


def both(engine, text):
    """Its answers to a query and to one that is awaited."""
    return [engine.query(text), asyncio.run(engine.aquery(text))]


def test_a_local_retriever_sees_the_raw_query(desk):
    retriever, text = Remembering(node(desk), node(desk, 1)), desk.private_text
    inner = RetrieverQueryEngine.from_args(Remembering(), llm=desk.llama_openai())
    engine = DPQueryEngine(desk.session(), inner, retriever=retriever, metadata=["page"])
    responses = both(engine, text)
    assert (retriever.seen, inner.retriever.seen) == ([text] * 2, [])
    assert sorted(desk.charges) == [5, 5, 6, 6]  # two queries, two nodes once
    assert not desk.remote.saw(desk.canary)
    assert desk.canary not in repr(responses)
    released = [each.node.text for each in responses[0].source_nodes]
    assert all(text in prompt for text in released for prompt in desk.remote.prompts)


@over("found", [0, 2])
def test_the_extractor_reads_the_raw_query_and_nodes(found, desk):
    raw = Remembering(*(node(desk, number) for number in range(found)))
    with OpenAIServer(mode="echo") as local:
        engine = DPQueryEngine(
            desk.session(),
            engine_of(desk, "w1x"),
            retriever=raw if found else None,
            extractor=desk.llama_openai(local),
        )
        asked = f"which {desk.canary}"
        responses = both(engine, asked)
        assert len(local.prompts) == 2
        for prompt in local.prompts:
            assert all(part in prompt for part in [asked, *(each.text for each in raw.nodes)])
    assert not desk.remote.saw(desk.canary)
    for response in responses:
        assert desk.canary in str(response)
        assert "a fine answer" in str(response)
        assert response.metadata["remote_text"] == "a fine answer"
        assert desk.canary not in f"{response.source_nodes} {response.metadata}"
        assert len(response.source_nodes) == (found or 1)


def test_refusals(desk):
    with pytest.raises(dp.ParameterError, match="extractor= with streaming"):
        DPQueryEngine(desk.session(), engine_of(desk), streaming=True)
    remote = desk.llama_openai(SimpleNamespace(url="https://models.example/v1"))
    with pytest.raises(dp.UntrustedHost):
        DPQueryEngine(desk.session(), engine_of(desk), extractor=remote)
    for component in (
        DPQueryEngine(desk.session(), engine_of(desk)),
        DPQueryTransform(desk.session()),
        DPNodePostprocessor(desk.session()),
    ):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError):
                copied(component)
