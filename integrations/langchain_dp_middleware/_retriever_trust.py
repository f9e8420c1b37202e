"""Where a retriever takes the raw query: models, embeddings and indexes anywhere inside of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dp_middleware.errors import UntrustedHost
from dp_middleware.models.trust import locate_all, require_trusted

_OURS = ("dp_middleware", "langchain_dp_middleware")
_LOCAL = frozenset(
    f"langchain_community.{name}"
    for name in (
        *("BM25Retriever", "TFIDFRetriever", "KNNRetriever", "SVMRetriever"),
        *("FAISS", "InMemoryDocstore"),
    )
)


def require_local(retriever: Any, trusted_hosts: Iterable[str]) -> None:
    """Refuse a retriever that would take the raw query out of this computer.

    The fields of LangChain's own objects are walked. What has no address and is not known to be
    local is refused, the user's own classes and functions too, unless it says where it runs, with
    a :class:`Location` as its ``location``.

    Args:
        retriever: A LangChain retriever.
        trusted_hosts: Names of further hosts that may see the raw query.

    Raises:
        UntrustedHost: A part of it may send the query elsewhere.
        ParameterError: ``trusted_hosts`` is not a collection of host names.
    """

    def releases(x: object) -> bool:
        return type(x).__module__.partition(".")[0] in _OURS

    place = locate_all(retriever, local=_LOCAL, releases=releases)
    require_trusted(replace(place, unknown=frozenset()), trusted_hosts)
    if place.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(place.unknown))} in {type(retriever).__name__} "
            "sends a query; use a local index and embedding model, or give your own retriever a "
            "property location, a dp_middleware Location, that says where it runs"
        )
