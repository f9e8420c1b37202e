"""Retrievers with a part that would take the raw question away are refused, wherever it hides."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.evaluation import GuidelineEvaluator, RelevancyEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import (
    CogniswitchQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RetryGuidelineQueryEngine,
    RetryQueryEngine,
    RetrySourceQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    BaseRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
    TransformRetriever,
    VectorIndexRetriever,
)
from llama_index.core.schema import IndexNode, NodeWithScore, TextNode
from llama_index.core.selectors import (
    LLMMultiSelector,
    LLMSingleSelector,
    PydanticMultiSelector,
    PydanticSingleSelector,
)
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.llms.openai import OpenAI
from llama_index_dp_middleware import DPQueryEngine, ServiceEmbedding
from support.llama_index import index_of

import dp_middleware as dp
from dp_middleware.models.trust import Location

ELSEWHERE = "https://models.example/v1"


def model_at(url):
    return OpenAI(model="gpt-4o-mini", api_key="sk-test", api_base=url, max_retries=0)


def index(**options):
    return index_of("w1x w2x", transformations=[SentenceSplitter()], **options)


def retriever():
    return index().as_retriever()


def engine():
    return RetrieverQueryEngine.from_args(retriever(), llm=MockLLM())


def routed(selector):
    tool = RetrieverTool.from_defaults(retriever(), description="all")
    return RouterRetriever(selector=selector, retriever_tools=[tool], llm=MockLLM())


def below(engine):
    """A retriever that asks an engine."""
    return RecursiveRetriever("a", {"a": retriever()}, query_engine_dict={"b": engine})


def tools():
    return [QueryEngineTool.from_defaults(engine(), name="all", description="all")]


def sub_questions(model):
    asking = LLMQuestionGenerator.from_defaults(llm=model)
    return SubQuestionQueryEngine.from_defaults(tools(), llm=MockLLM(), question_gen=asking)


def multi_step(model):
    step = StepDecomposeQueryTransform(llm=model)
    synthesizer = engine()._response_synthesizer
    return MultiStepQueryEngine(engine(), step, response_synthesizer=synthesizer)


def fusing(model):
    return QueryFusionRetriever([retriever()], llm=model)


def node(obj):
    return IndexNode(text="w3x", index_id="b", obj=obj)


class EmbeddingAt(BaseEmbedding):
    """Says where it sends the texts: where a model does."""

    api_base: str

    def _get_text_embedding(self, text):
        return [1.0]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return [1.0]


SHAPES = {
    "PydanticSingleSelector": lambda m: routed(PydanticSingleSelector.from_defaults(llm=m)),
    "PydanticMultiSelector": lambda m: routed(PydanticMultiSelector.from_defaults(llm=m)),
    "LLMSingleSelector": lambda m: routed(LLMSingleSelector.from_defaults(llm=m)),
    "LLMMultiSelector": lambda m: routed(LLMMultiSelector.from_defaults(llm=m)),
    "QueryFusionRetriever": fusing,
    "AutoMergingRetriever": lambda m: AutoMergingRetriever(
        TransformRetriever(retriever(), HyDEQueryTransform(llm=m)), index().storage_context
    ),
    "TransformRetriever": lambda m: TransformRetriever(retriever(), HyDEQueryTransform(llm=m)),
    "below RecursiveRetriever": lambda m: RecursiveRetriever(
        "a", {"a": routed(PydanticSingleSelector.from_defaults(llm=m))}
    ),
    "a node of RecursiveRetriever": lambda m: RecursiveRetriever(
        "a", {"a": retriever()}, node_dict={"b": node(fusing(m))}
    ),
    "an object of a retriever": lambda m: VectorIndexRetriever(
        index(), object_map={"b": fusing(m)}
    ),
    "an object of an index": lambda m: index(objects=[node(fusing(m))]).as_retriever(),
    "an engine of an index": lambda m: index(objects=[node(multi_step(m))]).as_retriever(),
    "an embedding model": lambda m: index(
        embed_model=EmbeddingAt(api_base=m.api_base)
    ).as_retriever(),
    "a postprocessor": lambda m: below(
        RetrieverQueryEngine.from_args(
            retriever(), llm=MockLLM(), node_postprocessors=[LLMRerank(llm=m)]
        )
    ),
    "RouterQueryEngine": lambda m: below(
        RouterQueryEngine.from_defaults(
            tools(), llm=MockLLM(), selector=PydanticMultiSelector.from_defaults(llm=m)
        )
    ),
    "RetryQueryEngine": lambda m: below(RetryQueryEngine(engine(), RelevancyEvaluator(llm=m))),
    "RetrySourceQueryEngine": lambda m: below(
        RetrySourceQueryEngine(engine(), RelevancyEvaluator(llm=m), llm=MockLLM())
    ),
    "RetryGuidelineQueryEngine": lambda m: below(
        RetryGuidelineQueryEngine(
            engine(),
            GuidelineEvaluator(llm=m),
            query_transformer=HyDEQueryTransform(llm=MockLLM()),
        )
    ),
    "TransformQueryEngine": lambda m: below(
        TransformQueryEngine(engine(), HyDEQueryTransform(llm=m))
    ),
    "SubQuestionQueryEngine": lambda m: below(sub_questions(m)),
    "MultiStepQueryEngine": lambda m: below(multi_step(m)),
}


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_a_remote_model_is_refused_and_one_on_loopback_is_not(build, desk):
    inner = RetrieverQueryEngine.from_args(retriever(), llm=desk.llama_openai())
    remote = build(model_at(ELSEWHERE))
    with pytest.raises(dp.UntrustedHost, match=r"raw text would go to models\.example"):
        DPQueryEngine(desk.session(), inner, retriever=remote)
    DPQueryEngine(desk.session(), inner, retriever=remote, trusted_hosts=["models.example"])
    DPQueryEngine(desk.session(), inner, retriever=build(desk.llama_openai()))


class Mine(BaseRetriever):
    """Of an application, with anything in it."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text="w1x"))]


class VendorsModel(MockLLM):
    """Says nothing of where it runs."""


class VendorsNode(IndexNode):
    """Keeps what it refers to."""


for vendors in (VendorsModel, VendorsNode):
    vendors.__module__ = "llama_index.vendor"


def test_parts_of_other_packages_are_refused_unless_they_are_known(desk):
    import httpx
    from sqlalchemy import create_engine

    for part in (
        httpx.Client(),
        httpx.get,
        create_engine("sqlite://"),
        CogniswitchQueryEngine("a", "b", "c"),
        VendorsModel(),
        VendorsNode(text="w1x", index_id="b", obj=fusing(model_at(ELSEWHERE))),
        [model_at(ELSEWHERE)],
        model_at(ELSEWHERE).complete,
    ):
        with pytest.raises(dp.UntrustedHost):
            DPQueryEngine(desk.session(), engine(), retriever=Mine([part]))


def test_a_class_of_your_own_says_where_its_parts_run(desk):
    import httpx

    class Said(Mine):
        location = Location(hosts=frozenset({"store.example"}))

    with pytest.raises(dp.UntrustedHost, match=r"store\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Said([httpx.Client()]))
    trusted = ["store.example"]
    DPQueryEngine(desk.session(), engine(), retriever=Said([httpx.Client()]), trusted_hosts=trusted)


def test_a_property_that_is_called_location_and_is_none_hides_nothing(desk):
    class Shelf(Mine):
        @property
        def location(self):
            return "room 3"

    with pytest.raises(dp.UntrustedHost):
        DPQueryEngine(desk.session(), engine(), retriever=Shelf(model_at(ELSEWHERE).complete))


def test_a_local_index_with_local_embeddings_passes(desk):
    """Whatever the index holds, with pages of the web as sources of its nodes."""
    page = IndexNode(text="w1x", index_id="i", metadata={"url": ELSEWHERE}, obj=TextNode(text="a"))
    local = index_of(
        page,
        embed_model=ServiceEmbedding(dp.EmbeddingService.of(Letters())),
        transformations=[SentenceSplitter()],
    )
    for found in (local.as_retriever(), fusing(MockLLM()), below(engine())):
        assert str(DPQueryEngine(desk.session(), engine(), retriever=found).query("w1x"))


class Letters:
    """Vectors of the numbers of two letters."""

    def encode(self, texts):
        return [[text.count("w"), text.count("x")] for text in texts]
