"""Whether a retriever keeps the raw query where raw text may be."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, ModuleType

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode

import dp_middleware as dp
from dp_middleware.errors import UntrustedHost
from dp_middleware.models.object_graph import is_data, is_foreign, is_own, objects_in
from dp_middleware.models.parts import is_model
from dp_middleware.models.trust import (
    IN_PROCESS,
    Location,
    locate,
    require_trusted,
    said_by,
)

_LOCAL = frozenset({"BM25Retriever", "FaissVectorStore", "FaissMapVectorStore"})
_UNUSED = (CallbackManager, dp.Session, dp.Sanitizer)  # the first is silenced, the others release
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})


def require_local(retriever: BaseRetriever, trusted_hosts: Iterable[str]) -> None:
    """Refuse a retriever of which any part could take the raw query out of this computer.

    Looks at everything that it holds. Classes of LlamaIndex's core and your own are looked into;
    a part of another package must be known to be in process, or have an address, or say where it
    runs in a ``location``. Data of your own that has no methods may name any address.

    Raises:
        UntrustedHost: A part is not in process, on loopback or on a trusted host, or unknown.
    """
    location = IN_PROCESS
    for part in objects_in(retriever, whole=_is_whole):
        if type(part) not in _CONTAINERS and not isinstance(part, (type, *_UNUSED)):
            location |= _location(part)
    if location.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(location.unknown))} of the retriever runs; if "
            "raw text may go there, call it in a class of yours that says so: `location = "
            "Location()`, of dp_middleware.models.trust"
        )
    require_trusted(location, trusted_hosts)


def _is_whole(part: object) -> bool:
    if type(part) in _CONTAINERS:
        return False
    return isinstance(part, _UNUSED) or said_by(part) is not None or is_foreign(part, local=_LOCAL)


def _location(part: object) -> Location:
    is_known, foreign = is_model(part) or said_by(part) is not None, is_foreign(part, local=_LOCAL)
    acts = is_own(part) and not is_data(type(part))
    has_address = acts and not isinstance(part, BaseNode)  # a node has its source's
    if not (is_known or foreign or has_address):
        return IN_PROCESS
    found = locate(part)
    if is_known or not foreign or found != IN_PROCESS:
        return found
    named = part if isinstance(part, FunctionType | ModuleType) else type(part)
    return Location(unknown=frozenset({named.__name__}))
