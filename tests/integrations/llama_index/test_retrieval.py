"""Retrievers with a part that would take the raw question away are refused, wherever it hides."""

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.evaluation import RelevancyEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import (
    CogniswitchQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
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
    PydanticMultiSelector,
    PydanticSingleSelector,
)
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.llms.openai import OpenAI
from llama_index_dp_middleware import DPQueryEngine, ServiceEmbedding
from sqlalchemy import create_engine
from support.cases import over

import dp_middleware as dp
from dp_middleware.models.trust import Location

ELSEWHERE = "https://models.example/v1"


def model_at(url):
    return OpenAI(model="gpt-4o-mini", api_key="sk-test", api_base=url, max_retries=0)


def index(**options):
    node = TextNode(id_="n", text="w1x w2x")
    return VectorStoreIndex(
        [node], embed_model=MockEmbedding(4), transformations=[SentenceSplitter()], **options
    )


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


SHAPES = {
    "PydanticSingleSelector": lambda m: routed(PydanticSingleSelector.from_defaults(llm=m)),
    "LLMMultiSelector": lambda m: routed(LLMMultiSelector.from_defaults(llm=m)),
    "QueryFusionRetriever": lambda m: QueryFusionRetriever([retriever()], llm=m),
    "AutoMergingRetriever": lambda m: AutoMergingRetriever(
        TransformRetriever(retriever(), HyDEQueryTransform(llm=m)), index().storage_context
    ),
    "below RecursiveRetriever": lambda m: RecursiveRetriever(
        "a", {"a": routed(PydanticSingleSelector.from_defaults(llm=m))}
    ),
    "a node of RecursiveRetriever": lambda m: RecursiveRetriever(
        "a", {"a": retriever()}, node_dict={"b": object_node(m)}
    ),
    "an object of a retriever": lambda m: VectorIndexRetriever(
        index(), object_map={"b": fusing(m)}
    ),
    "an object of an index": lambda m: index(objects=[object_node(m)]).as_retriever(),
    "an engine of an index": lambda m: index(objects=[asking_node(m)]).as_retriever(),
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
    "RetrySourceQueryEngine": lambda m: below(
        RetrySourceQueryEngine(engine(), RelevancyEvaluator(llm=m), llm=MockLLM())
    ),
    "TransformQueryEngine": lambda m: below(
        TransformQueryEngine(engine(), HyDEQueryTransform(llm=m))
    ),
    "SubQuestionQueryEngine": lambda m: below(sub_questions(m)),
    "MultiStepQueryEngine": lambda m: below(multi_step(m)),
}


def fusing(model):
    return QueryFusionRetriever([retriever()], llm=model)


def object_node(model):
    return IndexNode(text="w3x", index_id="b", obj=fusing(model))


def asking_node(model):
    return IndexNode(text="w3x", index_id="b", obj=multi_step(model))


@over("build", SHAPES.values())
def test_a_remote_model_is_refused_and_one_on_loopback_is_not(build, desk):
    inner = RetrieverQueryEngine.from_args(retriever(), llm=desk.llama_openai())
    remote = build(model_at(ELSEWHERE))
    with pytest.raises(dp.UntrustedHost, match=r"raw text would go to models\.example"):
        DPQueryEngine(desk.session(), inner, retriever=remote)
    DPQueryEngine(desk.session(), inner, retriever=remote, trusted_hosts=["models.example"])
    DPQueryEngine(desk.session(), inner, retriever=build(desk.llama_openai()))


class Mine(BaseRetriever):
    """Of an application, with anything in it."""

    def __init__(self, part=None):
        super().__init__()
        self.part = part

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text="w1x"))]


class First(BaseSelector):
    """Has no field of its own but in its closure."""

    def __init__(self, choose):
        self._choose = choose

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    def _select(self, choices, query):
        return SelectorResult(selections=[SingleSelection(index=0, reason="")])

    async def _aselect(self, choices, query):
        return self._select(choices, query)


class Derived(OpenAI):
    """On loopback, with something more."""

    other: object = None


class VendorsModel(MockLLM):
    """Says nothing of where it runs."""


class VendorsDict(dict):
    """A collection that is more than that."""


for each in (VendorsModel, VendorsDict):
    each.__module__ = "llama_index.vendor"


def closure(model):
    return lambda text: model.complete(text)


def of_node(part):
    return index(objects=[IndexNode(text="w3x", index_id="b", obj=part)]).as_retriever()


UNKNOWN = {
    "own retriever": Mine,
    "own selector": lambda m: routed(First(closure(m))),
    "own class": lambda m: of_node(type("Other", (), {"shared": m})()),
    "derived from a vendor's": lambda m: of_node(
        Derived(model="gpt-4o", api_key="k", api_base="http://localhost/v1")
    ),
    "a vendor's model": lambda m: of_node(VendorsModel()),
    "a vendor's collection": lambda m: of_node(VendorsDict()),
    "database": lambda m: of_node(create_engine("sqlite://")),
    "Cogniswitch": lambda m: below(CogniswitchQueryEngine("a", "b", "c")),
    "callback handler": lambda m: VectorIndexRetriever(
        index(), callback_manager=CallbackManager([LlamaDebugHandler()])
    ),
}


@over("build", UNKNOWN.values())
def test_what_is_not_known_is_refused_even_if_its_host_is_trusted(build, desk):
    with pytest.raises(dp.UntrustedHost):
        DPQueryEngine(desk.session(), engine(), retriever=build(model_at(ELSEWHERE)))
    local = build(model_at("http://localhost/v1"))
    with pytest.raises(dp.UntrustedHost, match=r"cannot tell where|cogniswitch"):
        DPQueryEngine(desk.session(), engine(), retriever=local)


def test_a_local_index_with_local_embeddings_passes(desk):
    """Whatever the index holds, with pages of the web as sources of its nodes."""
    page = IndexNode(text="w1x", index_id="i", metadata={"url": ELSEWHERE}, obj=TextNode(text="a"))
    local = VectorStoreIndex(
        [page],
        embed_model=ServiceEmbedding(dp.EmbeddingService.of(Letters())),
        transformations=[SentenceSplitter()],
    )
    for each in (local.as_retriever(), fusing(MockLLM()), below(engine())):
        assert str(DPQueryEngine(desk.session(), engine(), retriever=each).query("w1x"))


class Letters:
    """Vectors of the numbers of two letters."""

    location = Location()

    def encode(self, texts):
        return [[text.count("w"), text.count("x")] for text in texts]
