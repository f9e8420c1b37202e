"""Retrievers with a part that would take the raw question away are refused, wherever it hides."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple, TypedDict

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.embeddings import MockEmbedding
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
from pydantic import BaseModel, validate_call

import dp_middleware as dp
from dp_middleware.models.trust import Location

ELSEWHERE = "https://models.example/v1"


REMOTE = []  # what the module holds is no part of a function's own


@validate_call
def words(text: str) -> list[str]:
    return text.split()


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
    "PydanticMultiSelector": lambda m: routed(PydanticMultiSelector.from_defaults(llm=m)),
    "LLMSingleSelector": lambda m: routed(LLMSingleSelector.from_defaults(llm=m)),
    "LLMMultiSelector": lambda m: routed(LLMMultiSelector.from_defaults(llm=m)),
    "QueryFusionRetriever": lambda m: QueryFusionRetriever([retriever()], llm=m),
    "AutoMergingRetriever": lambda m: AutoMergingRetriever(
        TransformRetriever(retriever(), HyDEQueryTransform(llm=m)), index().storage_context
    ),
    "TransformRetriever": lambda m: TransformRetriever(retriever(), HyDEQueryTransform(llm=m)),
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


def fusing(model):
    return QueryFusionRetriever([retriever()], llm=model)


def object_node(model):
    return IndexNode(text="w3x", index_id="b", obj=fusing(model))


def asking_node(model):
    return IndexNode(text="w3x", index_id="b", obj=multi_step(model))


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_a_remote_model_is_refused_and_one_on_loopback_is_not(build, desk):
    inner = RetrieverQueryEngine.from_args(retriever(), llm=desk.llama_openai())
    remote = build(model_at(ELSEWHERE))
    with pytest.raises(dp.UntrustedHost, match=r"raw text would go to models\.example"):
        DPQueryEngine(desk.session(), inner, retriever=remote)
    DPQueryEngine(desk.session(), inner, retriever=remote, trusted_hosts=["models.example"])
    DPQueryEngine(desk.session(), inner, retriever=build(desk.llama_openai()))


# what holds a model ------------------------------------------------------------------------------


class Mine(BaseRetriever):
    """Of an application, with anything in it."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text="w1x"))]


class Slotted:
    __slots__ = ("__model",)

    def __init__(self, model):
        self.__model = model


class First(BaseSelector):
    """Has no field of its own but in its closure."""

    def __init__(self, choose):
        self._choose = choose

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    def _select(self, choices, query):
        self._choose(query.query_str)
        return SelectorResult(selections=[SingleSelection(index=0, reason="")])

    async def _aselect(self, choices, query):
        return self._select(choices, query)


def closure(model):
    return lambda text: model.complete(text)


def cycle(model):
    ring = [model]
    ring.append(ring)
    return {"ring": ring}


def class_of(model):
    class Other(Mine):
        shared = model

    return Other(None)


def generator(model):
    yield from [None, model]


HOLDERS = {
    "a closure": lambda m: routed(First(closure(m))),
    "a default": lambda m: Mine(lambda text, model=m: model.complete(text)),
    "a partial": lambda m: Mine(functools.partial(closure, m)),
    "a keyword of a partial": lambda m: Mine(functools.partial(closure, model=m)),
    "a bound method": lambda m: Mine(m.complete),
    "a slot": lambda m: Mine(Slotted(m)),
    "a namespace": lambda m: Mine(SimpleNamespace(a=[{"b": (m,)}])),
    "a key": lambda m: Mine({closure(m): 1}),
    "a set": lambda m: Mine(frozenset({closure(m)})),
    "a cycle": lambda m: Mine(cycle(m)),
    "a class": class_of,
    "a generator": lambda m: Mine(generator(m)),
    "a weak reference": lambda m: Mine([weakref.ref(KEPT.setdefault("model", m))]),
}
KEPT = {}


@pytest.mark.parametrize("build", HOLDERS.values(), ids=HOLDERS)
def test_a_remote_model_is_found_wherever_it_is_held(build, desk):
    KEPT.clear()
    with pytest.raises(dp.UntrustedHost, match=r"raw text would go to models\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=build(model_at(ELSEWHERE)))


# what is not known -------------------------------------------------------------------------------


def test_parts_of_other_packages_are_refused_unless_they_are_known(desk):
    import httpx
    from sqlalchemy import create_engine

    for part in (
        httpx.Client(),
        httpx.get,
        httpx,
        create_engine("sqlite://"),
        CogniswitchQueryEngine("a", "b", "c"),
    ):
        with pytest.raises(dp.UntrustedHost):
            DPQueryEngine(desk.session(), engine(), retriever=Mine([part]))


def test_what_else_a_module_holds_is_no_part_of_a_function(desk):
    REMOTE[:] = [model_at(ELSEWHERE)]
    DPQueryEngine(desk.session(), engine(), retriever=Mine(words))


class Derived(OpenAI):
    """On loopback, with something more."""

    other: object = None


def test_a_class_derived_from_a_vendors_is_looked_into(desk):
    model = Derived(model="gpt-4o", api_key="k", api_base="http://localhost/v1")
    DPQueryEngine(desk.session(), engine(), retriever=Mine(model))
    model.other = closure(model_at(ELSEWHERE))
    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Mine(model))


class PlainNode(TextNode):
    url: str


class AskingNode(PlainNode):
    def ask(self, question):
        return question


def test_a_node_of_your_own_that_acts_is_judged_by_its_address(desk):
    DPQueryEngine(desk.session(), engine(), retriever=Mine(PlainNode(text="a", url=ELSEWHERE)))
    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Mine(AskingNode(url=ELSEWHERE)))


class VendorsModel(MockLLM):
    """Says nothing of where it runs."""


class VendorsDict(dict):
    """A collection that is more than that."""


class VendorsNode(IndexNode):
    """Keeps what it refers to."""


for each in (VendorsModel, VendorsDict, VendorsNode):
    each.__module__ = "llama_index.vendor"


def test_parts_that_a_vendor_derived_from_local_classes_are_refused(desk):
    hidden = VendorsNode(text="w1x", index_id="b", obj=fusing(model_at(ELSEWHERE)))
    for part in (VendorsModel(), VendorsDict(), hidden):
        with pytest.raises(dp.UntrustedHost, match=f"cannot tell where {type(part).__name__} "):
            DPQueryEngine(desk.session(), engine(), retriever=Mine([part]))


def test_a_part_of_another_package_with_an_address_is_judged_by_it(desk):
    import httpx

    here, there = (httpx.Client(base_url=url) for url in ("http://localhost:1", ELSEWHERE))
    DPQueryEngine(desk.session(), engine(), retriever=Mine(here))
    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Mine(there))


def test_a_class_of_your_own_says_where_its_parts_run(desk):
    import httpx

    class Said(Mine):
        location = Location(hosts=frozenset({"store.example"}))

    with pytest.raises(dp.UntrustedHost, match=r"store\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Said([httpx.Client()]))
    trusted = ["store.example"]
    DPQueryEngine(desk.session(), engine(), retriever=Said([httpx.Client()]), trusted_hosts=trusted)


class Row(NamedTuple):
    url: str


class Link(TypedDict):
    url: str


@dataclass(frozen=True)
class Page:
    host: str


class Source(BaseModel):
    endpoint: str


class Fetching(Source):
    def fetch(self, question):
        return question


def test_an_address_in_data_without_methods_is_no_part(desk):
    plain = [Row(ELSEWHERE), Link(url=ELSEWHERE), Page(ELSEWHERE), Source(endpoint=ELSEWHERE)]
    DPQueryEngine(desk.session(), engine(), retriever=Mine(plain))
    for part in (Fetching(endpoint=ELSEWHERE), Mine(None)):
        part.__dict__.update(url=ELSEWHERE)
        with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
            DPQueryEngine(desk.session(), engine(), retriever=Mine(part))
    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Mine(Page(model_at(ELSEWHERE))))


def test_a_property_that_is_called_location_and_is_none_hides_nothing(desk):
    class Shelf(Mine):
        @property
        def location(self):
            return "room 3"

    with pytest.raises(dp.UntrustedHost, match=r"models\.example"):
        DPQueryEngine(desk.session(), engine(), retriever=Shelf(model_at(ELSEWHERE).complete))


def test_a_local_index_with_local_embeddings_passes(desk):
    """Whatever the index holds, with pages of the web as sources of its nodes."""
    page = IndexNode(text="w1x", index_id="i", metadata={"url": ELSEWHERE}, obj=TextNode(text="a"))
    local = VectorStoreIndex(
        [page],
        embed_model=ServiceEmbedding(dp.EmbeddingService.of(Letters())),
        transformations=[SentenceSplitter()],
    )
    for each in (local.as_retriever(), fusing(MockLLM()), below(engine()), Mine(desk.session())):
        assert str(DPQueryEngine(desk.session(), engine(), retriever=each).query("w1x"))


class Letters:
    """Vectors of the numbers of two letters."""

    def encode(self, texts):
        return [[text.count("w"), text.count("x")] for text in texts]
