"""Search by raw queries, which stay where raw text may be."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

import dp_middleware as dp
from dp_middleware.conversation.metadata import public_keys
from dp_middleware.errors import guarded
from dp_middleware.models.trust import locate_all, require_trusted
from llama_index_dp_middleware._blocks import unrecorded
from llama_index_dp_middleware.nodes import release_scored

_LOCAL = frozenset(
    f"llama_index.{name}" for name in ("BM25Retriever", "FaissVectorStore", "FaissMapVectorStore")
)

Found = tuple[list[NodeWithScore], list[NodeWithScore]]
"""Raw nodes, and their released copies."""


def _require_local(retriever: BaseRetriever, trusted_hosts: Iterable[str]) -> None:
    """Refuses a retriever of which any part could take the raw query out of this computer."""

    def is_safe(x: object) -> bool:
        return isinstance(x, dp.Session | dp.Sanitizer)

    remedy = (
        "if raw text may go there, say so in a class of yours that calls it: `location = "
        "Location()`, of dp_middleware.models.trust; make handlers discreet by "
        "quiet_recorders(callback_manager)"
    )
    place = locate_all(retriever, local=_LOCAL, releases=is_safe)
    require_trusted(place, trusted_hosts, remedy=remedy)


class LocalSearch:
    """Finds nodes for raw queries, unrecorded, and releases them.

    Args:
        session: As of :class:`DPQueryEngine`, and so the rest; no retriever finds nothing.

    Raises:
        UntrustedHost: As there.
    """

    def __init__(
        self,
        session: dp.Session,
        retriever: BaseRetriever | None,
        metadata: Collection[str],
        trusted_hosts: Iterable[str],
    ) -> None:
        if retriever is not None:
            _require_local(retriever, trusted_hosts)
        self.retriever = retriever
        self._session, self._metadata = session, public_keys(metadata)

    def find(self, query: QueryBundle) -> Found:
        """Finds nodes."""
        if self.retriever is None:
            return [], []
        with unrecorded():
            raw = guarded(self.retriever.retrieve, query, what="the retriever")
        return raw, guarded(release_scored, self._session, raw, self._metadata)
