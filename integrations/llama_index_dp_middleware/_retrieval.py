"""Whether a retriever keeps the raw query where raw text may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer

from dp_middleware.errors import UntrustedHost
from dp_middleware.frameworks.trust import IN_PROCESS, Location, locate, require_trusted

_COMPOSED = (
    BaseRetriever,
    BaseQueryEngine,
    BaseSynthesizer,
    BaseNodePostprocessor,
    BaseQueryTransform,
    BaseSelector,
    BaseQuestionGenerator,
)
_LOCAL = frozenset({"BM25Retriever"})


class _Located(NamedTuple):
    location: Location


def require_local(retriever: BaseRetriever, trusted_hosts: Iterable[str]) -> None:
    """Refuse a retriever whose models would take the raw query out of this computer.

    Looks at the retriever and at the embedding models and LLMs it is made of; not at its vector
    store, which has the raw documents already.

    Raises:
        UntrustedHost: One is not in process, on loopback or on a trusted host, or unknown.
    """
    location = IN_PROCESS
    for part in _parts(retriever, set()):
        location |= locate(part)
    if unknown := location.unknown - _LOCAL:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(unknown))} runs; if raw text may go there, call "
            "it in a retriever or embedding class of your own"
        )
    require_trusted(_Located(replace(location, unknown=frozenset())), trusted_hosts)


def _parts(x: Any, seen: set[int]) -> Iterator[Any]:
    if id(x) in seen:
        return
    seen.add(id(x))
    if isinstance(x, list | tuple | dict):
        for each in x.values() if isinstance(x, dict) else x:
            yield from _parts(each, seen)
    elif isinstance(x, BaseLLM | BaseEmbedding):
        yield x
    elif isinstance(x, _COMPOSED):
        yield x
        private = getattr(x, "__pydantic_private__", None) or {}
        yield from _parts([*vars(x).values(), *private.values()], seen)
