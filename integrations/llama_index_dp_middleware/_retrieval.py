"""Whether a retriever keeps the raw query where raw text may be."""

from __future__ import annotations

from collections.abc import Iterable

from llama_index.core.base.base_retriever import BaseRetriever

import dp_middleware as dp
from dp_middleware.errors import UntrustedHost
from dp_middleware.models.parts import inherits
from dp_middleware.models.trust import locate_all, require_trusted

_LOCAL = frozenset(
    f"llama_index.{name}" for name in ("BM25Retriever", "FaissVectorStore", "FaissMapVectorStore")
)


def require_local(retriever: BaseRetriever, trusted_hosts: Iterable[str]) -> None:
    """Refuse a retriever of which any part could take the raw query out of this computer.

    Looks at everything that it holds. Classes of LlamaIndex's core and your own are looked into;
    a part of another package must be known to be in process, or have an address, or say where it
    runs in a ``location``. Data of your own that has no methods may name any address.

    Raises:
        UntrustedHost: A part is not in process, on loopback or on a trusted host, or unknown.
    """

    def is_safe(x: object) -> bool:  # silenced, or released before it is sent
        is_silenced = inherits(x, "llama_index.core", "CallbackManager")
        return is_silenced or isinstance(x, dp.Session | dp.Sanitizer)

    place = locate_all(retriever, local=_LOCAL, releases=is_safe)
    if place.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(place.unknown))} of the retriever runs; if "
            "raw text may go there, call it in a class of yours that says so: `location = "
            "Location()`, of dp_middleware.models.trust"
        )
    require_trusted(place, trusted_hosts)
