"""Wrappers by which LangChain would trace raw input: refused, and nothing was traced or charged."""

from __future__ import annotations

from typing import ClassVar

import pytest

pytest.importorskip("langchain_openai")

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_dp_middleware import (
    DPChatModel,
    DPRetriever,
    DPSanitizer,
    InferDPTChatModel,
    PrivateHead,
)

from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import Location
from dp_middleware.testing import Probe

CALLS = {
    "map": lambda x, p: x.map().invoke([p.new_text()], p.config),
    "as_tool": lambda x, p: x.as_tool(name="x", description="y").invoke(p.new_text(), p.config),
    "with_retry": lambda x, p: x.with_retry(stop_after_attempt=1).invoke(p.new_text(), p.config),
    "with_fallbacks": lambda x, p: x.with_fallbacks([x]).invoke(p.new_text(), p.config),
}


class Local(BaseRetriever):
    """Answers with the query."""

    location: ClassVar = Location()

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(query, id="1")]


def infer(probe, **options):
    return InferDPTChatModel(
        probe.session(), remote=probe.chat_openai(), extractor=probe.extractor, **options
    )


ADAPTERS = {
    "InferDPTChatModel": infer,
    "DPChatModel": lambda p: DPChatModel(p.session(), p.chat_openai()),
    "DPRetriever": lambda p: DPRetriever(p.session(), Local()),
    "DPSanitizer": lambda p: DPSanitizer(p.session()),
    "PrivateHead": lambda p: PrivateHead(p.session()),
}
OWN = {"DPChatModel", "PrivateHead"}  # whose retries and fallbacks are behind the boundary


@pytest.mark.parametrize(
    ("name", "wrapper"),
    [(n, w) for n in ADAPTERS for w in CALLS if n not in OWN or w in ("map", "as_tool")],
)
def test_it_is_refused(name, wrapper, tmp_path):
    with Probe(tmp_path) as probe:
        with pytest.raises(ParameterError, match=rf"{wrapper}\(\) of {name} would trace") as caught:
            CALLS[wrapper](ADAPTERS[name](probe), probe)
        assert not probe.leaks(error=caught.value)
        assert not probe.charges


@pytest.mark.parametrize("wrapper", ["map", "with_retry"])
def test_what_may_be_recorded_may_be_wrapped(wrapper, tmp_path):
    with Probe(tmp_path) as probe:
        for each in (DPSanitizer(probe.session(), traced="allow"), infer(probe, traced="allow")):
            CALLS[wrapper](each, probe)
        assert len(probe.charges) == 2


@pytest.mark.parametrize(
    "make",
    [
        infer,
        lambda p, **o: DPChatModel(p.session(), p.chat_openai(), **o),
        lambda p, **o: DPRetriever(p.session(), Local(), **o),
        lambda p, **o: DPSanitizer(p.session(), **o),
    ],
)
def test_a_misspelt_option_is_refused_and_not_quoted(make, tmp_path):
    with Probe(tmp_path) as probe:
        with pytest.raises(ParameterError, match="has no max_epsion; expected some of"):
            make(probe, max_epsion=probe.canary)
        with pytest.raises(ParameterError) as caught:
            make(probe, max_epsion=probe.canary)
        assert not probe.leaks(error=caught.value)
        for model in (make(probe), make(probe, max_epsilon=2.0)):
            assert model.model_copy().max_epsilon == model.max_epsilon


@pytest.mark.parametrize("method", ["bind_tools", "with_structured_output"])
def test_an_inferdpt_model_has_neither_tools_nor_structured_output(method, tmp_path):
    with Probe(tmp_path) as probe, pytest.raises(ParameterError, match="use DPChatModel"):
        getattr(infer(probe), method)([{"title": "x"}])
