"""Where a retriever takes the raw query: models, embeddings and indexes anywhere inside of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from langchain_core.documents import Document

from dp_middleware.errors import UntrustedHost
from dp_middleware.models.object_graph import is_data, is_own, objects_in
from dp_middleware.models.parts import is_model
from dp_middleware.models.trust import (
    IN_PROCESS,
    Location,
    locate,
    require_trusted,
    said_by,
)
from langchain_dp_middleware._notes import NotedModel

_OURS = ("dp_middleware", "langchain_dp_middleware")
_COMPUTING = frozenset(  # nothing in these packages sends anything by being called
    {
        *("numpy", "scipy", "pandas", "sklearn", "torch", "transformers", "sentence_transformers"),
        *("faiss", "rank_bm25", "tokenizers", "tiktoken", "onnxruntime", "fastembed", "nltk"),
        *("annotated_types", "pydantic", "pydantic_core", "typing_extensions", "_pytest", "pytest"),
    }
)
_NETWORK = frozenset({"asyncio", "ftplib", "http", "smtplib", "socket", "ssl", "urllib", "xmlrpc"})
_WAITING = ("asyncio.locks", "asyncio.queues", "urllib.parse")  # and naming: nothing is sent
_LOOKED_INTO = (  # by themselves local; what they hold is looked at
    *("langchain_core.", "langchain_text_splitters."),
    *("langchain_classic.retrievers.", "langchain_classic.storage.", "langchain_classic.chains."),
)
_LOCAL = frozenset(  # of langchain_community
    {"BM25Retriever", "TFIDFRetriever", "KNNRetriever", "SVMRetriever", "FAISS", "InMemoryDocstore"}
)


def require_local(retriever: Any, trusted_hosts: Iterable[str]) -> None:
    """Refuse a retriever that would take the raw query out of this computer.

    Its whole object graph is walked: fields, slots, closures, models and indexes inside. What is
    neither the user's own code nor known to be local is refused, unless an object says where it
    runs, with a :class:`Location` as its ``location``. The user's own data without methods may
    name any address.

    Args:
        retriever: A LangChain retriever.
        trusted_hosts: Names of further hosts that may see the raw query.

    Raises:
        UntrustedHost: A part of it may send the query elsewhere.
        ParameterError: ``trusted_hosts`` is not a collection of host names.
    """
    place = IN_PROCESS
    for each in objects_in(retriever, whole=lambda x: _judged(x)[1]):
        place |= _judged(each)[0]
    if place.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(place.unknown))} in {type(retriever).__name__} "
            "sends a query; use a local index and embedding model, or give your own retriever a "
            "property location, a dp_middleware Location, that says where it runs"
        )
    require_trusted(place, trusted_hosts)


def _judged(x: Any) -> tuple[Location, bool]:
    """Where an object itself runs, and whether that settles it for all inside of it."""
    kind = x if isinstance(x, type) else type(x)
    package = kind.__module__.partition(".")[0]
    if said_by(x) is not None:
        return locate(x), True
    is_ours = package in _OURS and not isinstance(x, NotedModel)  # which hands on what it is given
    if isinstance(x, Document) or is_ours or package in _COMPUTING:
        return IN_PROCESS, True
    if isinstance(x, type):
        return IN_PROCESS, False
    if package in sys.stdlib_module_names:
        sends = package in _NETWORK and kind.__module__ not in _WAITING
        return (_unknown(x), True) if sends else (IN_PROCESS, package == "logging")
    if is_model(x):
        location = locate(x)
        return location, location != IN_PROCESS or not _is_looked_into(x)
    if _is_looked_into(x):
        return (locate(x) if is_own(x) and not is_data(kind) else IN_PROCESS), False
    return _unknown(x), True


def _unknown(x: Any) -> Location:
    return Location(unknown=frozenset({type(x).__name__}))


def _is_looked_into(x: Any) -> bool:
    name = f"{type(x).__module__}."
    local = name.startswith("langchain_community.") and type(x).__name__ in _LOCAL
    return local or name.startswith(_LOOKED_INTO) or is_own(x)
