"""Search by raw queries, which stay where raw text may be."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

import dp_middleware as dp
from dp_middleware.conversation.boundary import aguarded, guarded, public_keys
from dp_middleware.errors import UntrustedHost
from dp_middleware.models.trust import locate_all, require_trusted
from llama_index_dp_middleware._nodes import CONVERSATION, released
from llama_index_dp_middleware._silence import acall_silently, call_silently

_LOCAL = frozenset(
    f"llama_index.{name}" for name in ("BM25Retriever", "FaissVectorStore", "FaissMapVectorStore")
)


def require_local(retriever: BaseRetriever, trusted_hosts: Iterable[str]) -> None:
    """Refuse a retriever of which any part could take the raw query out of this computer.

    Looks into the fields of LlamaIndex's own objects. A part of another package must be known to be
    in process, or have an address; a class or function of your own must say where it runs, in a
    ``location``. A callback handler that is not discreet would be told the query.

    Raises:
        UntrustedHost: A part is not in process, on loopback or on a trusted host, or unknown.
    """

    def is_safe(x: object) -> bool:
        return isinstance(x, dp.Session | dp.Sanitizer)

    place = locate_all(retriever, local=_LOCAL, releases=is_safe)
    require_trusted(replace(place, unknown=frozenset()), trusted_hosts)
    if place.unknown:
        raise UntrustedHost(
            f"cannot tell where {', '.join(sorted(place.unknown))} of the retriever runs; if "
            "raw text may go there, say so in a class of yours that calls it: `location = "
            "Location()`, of dp_middleware.models.trust; make handlers discreet by "
            "quiet_recorders(callback_manager)"
        )


class LocalSearch:
    """Finds nodes for raw queries, unrecorded, and releases them.

    Args:
        session: Releases the nodes.
        retriever: Sees the raw query; ``None`` finds nothing.
        metadata: Keys of the nodes' metadata that are public and kept.
        trusted_hosts: Names of further hosts that may see raw text.

    Raises:
        UntrustedHost: As :func:`require_local`.
    """

    def __init__(
        self,
        session: dp.Session,
        retriever: BaseRetriever | None,
        metadata: Collection[str],
        trusted_hosts: Iterable[str],
    ) -> None:
        if retriever is not None:
            require_local(retriever, trusted_hosts)
        self.retriever = retriever
        self._session, self._metadata = session, public_keys(metadata)

    def find(
        self, query: QueryBundle, conversation: str = CONVERSATION
    ) -> tuple[list[BaseNode], list[NodeWithScore]]:
        """Raw nodes, and released ones."""
        if self.retriever is None:
            return [], []
        raw = guarded(call_silently, self.retriever.retrieve, query, what="the retriever")
        return self._released(raw, conversation)

    async def afind(
        self, query: QueryBundle, conversation: str = CONVERSATION
    ) -> tuple[list[BaseNode], list[NodeWithScore]]:
        """As :meth:`find`, without blocking the event loop."""
        if self.retriever is None:
            return [], []
        raw = await aguarded(acall_silently, self.retriever.aretrieve, query, what="the retriever")
        return await asyncio.to_thread(self._released, raw, conversation)

    def _released(
        self, raw: list[NodeWithScore], conversation: str
    ) -> tuple[list[BaseNode], list[NodeWithScore]]:
        nodes = [scored.node for scored in raw]
        return nodes, guarded(released, self._session, nodes, self._metadata, conversation)
