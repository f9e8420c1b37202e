"""Retrievers with a part that would take the raw question away are refused, wherever it hides."""

import pytest
from llama_index.core import VectorStoreIndex, query_engine as engines, retrievers, selectors
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.evaluation import RelevancyEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.schema import IndexNode, TextNode
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
    node, split = TextNode(id_="n", text="w1x w2x"), SentenceSplitter()
    return VectorStoreIndex(
        [node], **{"embed_model": MockEmbedding(4), "transformations": [split], **options}
    )


def retriever():
    return index().as_retriever()


def engine(**options):
    return engines.RetrieverQueryEngine.from_args(retriever(), llm=MockLLM(), **options)


def tools():
    return [QueryEngineTool.from_defaults(engine(), name="all", description="all")]


def routed(selector):
    tool = RetrieverTool.from_defaults(retriever(), description="all")
    return retrievers.RouterRetriever(selector=selector, retriever_tools=[tool], llm=MockLLM())


def below(engine):
    """A retriever that asks an engine."""
    return retrievers.RecursiveRetriever("a", {"a": retriever()}, query_engine_dict={"b": engine})


def fusing(model):
    return retrievers.QueryFusionRetriever([retriever()], llm=model)


def of_node(part):
    """A retriever of an index that holds an object."""
    return index(objects=[IndexNode(text="w3x", index_id="b", obj=part)]).as_retriever()


def sub_questions(model):
    asking = LLMQuestionGenerator.from_defaults(llm=model)
    return engines.SubQuestionQueryEngine.from_defaults(tools(), llm=MockLLM(), question_gen=asking)


def multi_step(model):
    step = StepDecomposeQueryTransform(llm=model)
    synthesizer = engine()._response_synthesizer
    return engines.MultiStepQueryEngine(engine(), step, response_synthesizer=synthesizer)


SHAPES = [
    lambda m: routed(selectors.PydanticSingleSelector.from_defaults(llm=m)),
    lambda m: routed(selectors.LLMMultiSelector.from_defaults(llm=m)),
    fusing,
    lambda m: retrievers.AutoMergingRetriever(
        retrievers.TransformRetriever(retriever(), HyDEQueryTransform(llm=m)),
        index().storage_context,
    ),
    lambda m: retrievers.RecursiveRetriever("a", {"a": fusing(m)}),
    lambda m: retrievers.RecursiveRetriever(
        "a", {"a": retriever()}, node_dict={"b": IndexNode(text="x", index_id="b", obj=fusing(m))}
    ),
    lambda m: retrievers.VectorIndexRetriever(index(), object_map={"b": fusing(m)}),
    lambda m: of_node(fusing(m)),
    lambda m: of_node(multi_step(m)),
    lambda m: below(engine(node_postprocessors=[LLMRerank(llm=m)])),
    lambda m: below(
        engines.RouterQueryEngine.from_defaults(
            tools(), llm=MockLLM(), selector=selectors.LLMMultiSelector.from_defaults(llm=m)
        )
    ),
    lambda m: below(
        engines.RetrySourceQueryEngine(engine(), RelevancyEvaluator(llm=m), llm=MockLLM())
    ),
    lambda m: below(engines.TransformQueryEngine(engine(), HyDEQueryTransform(llm=m))),
    lambda m: below(sub_questions(m)),
    lambda m: below(multi_step(m)),
]


@over("build", SHAPES)
def test_a_remote_model_is_refused_and_one_on_loopback_is_not(build, desk):
    inner = engines.RetrieverQueryEngine.from_args(retriever(), llm=desk.llama_openai())
    remote = build(model_at(ELSEWHERE))
    with pytest.raises(dp.UntrustedHost, match=r"raw text would go to models\.example"):
        DPQueryEngine(desk.session(), inner, retriever=remote)
    DPQueryEngine(desk.session(), inner, retriever=remote, trusted_hosts=["models.example"])
    DPQueryEngine(desk.session(), inner, retriever=build(desk.llama_openai()))


class Mine(retrievers.BaseRetriever):
    """Of an application, with anything in it."""

    def __init__(self, part=None):
        super().__init__()
        self.part = part

    def _retrieve(self, query_bundle):
        return []


class First(BaseSelector):
    """Has no field of its own but in its closure."""

    def __init__(self, choose):
        self._choose = choose

    def _get_prompts(self):
        return {}

    _update_prompts = _select = _aselect = _get_prompts


class Derived(OpenAI):
    """On loopback, with something more."""

    other: object = None


class VendorsModel(MockLLM):
    """Says nothing of where it runs."""


class VendorsDict(dict):
    """A collection that is more than that."""


for each in (VendorsModel, VendorsDict):
    each.__module__ = "llama_index.vendor"


UNKNOWN = [
    Mine,
    lambda m: routed(First(lambda text: m.complete(text))),
    lambda m: of_node(type("Other", (), {"shared": m})()),
    lambda m: of_node(Derived(model="gpt-4o", api_key="k", api_base="http://localhost/v1")),
    lambda m: of_node(VendorsModel()),
    lambda m: of_node(VendorsDict()),
    lambda m: of_node(create_engine("sqlite://")),
    lambda m: below(engines.CogniswitchQueryEngine("a", "b", "c")),
    lambda m: retrievers.VectorIndexRetriever(
        index(), callback_manager=CallbackManager([LlamaDebugHandler()])
    ),
]


@over("build", UNKNOWN)
def test_what_is_not_known_is_refused_even_if_its_host_is_trusted(build, desk):
    with pytest.raises(dp.UntrustedHost):
        DPQueryEngine(desk.session(), engine(), retriever=build(model_at(ELSEWHERE)))
    local = build(model_at("http://localhost/v1"))
    with pytest.raises(dp.UntrustedHost, match=r"cannot tell where|cogniswitch"):
        DPQueryEngine(desk.session(), engine(), retriever=local)


class Letters:
    """Vectors of the numbers of two letters."""

    location = Location()

    def encode(self, texts):
        return [[text.count("w"), text.count("x")] for text in texts]


def test_a_local_index_with_local_embeddings_passes(desk):
    """Whatever the index holds, with pages of the web as sources of its nodes."""
    page = IndexNode(text="w1x", index_id="i", metadata={"url": ELSEWHERE}, obj=TextNode(text="a"))
    near = ServiceEmbedding(dp.EmbeddingService.of(Letters()))
    local = index(objects=[page], embed_model=near)
    for each in (local.as_retriever(), fusing(MockLLM()), below(engine())):
        assert str(DPQueryEngine(desk.session(), engine(), retriever=each).query("w1x"))
