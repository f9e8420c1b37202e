"""Retrieval: nodes of a local index leave it released."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, NoReturn

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded, public_keys
from dp_middleware.conversation.session import session_of
from llama_index_dp_middleware._nodes import released
from llama_index_dp_middleware._silence import unspanned


class DPNodePostprocessor(BaseNodePostprocessor):
    """Releases retrieved nodes for the model that reads them; put it last.

    For an index of raw text that stays local. Gives new nodes with the same ids, as
    :class:`DPTransform` does, without scores. A node that is retrieved again is answered from the
    session's memo: one release, one charge.

    With a session of pseudonyms nodes have the same ones as in :class:`DPQueryTransform`.

    Which nodes are retrieved, how many and in which order depends on raw text and **has no
    guarantee**. The retriever's own spans and events hold raw nodes: run the engine in
    ``with unrecorded()``, or use :class:`DPQueryEngine` with ``retriever=``.

    Attributes:
        metadata: Keys of metadata that are public and kept.

    Raises:
        ParameterError: From a call: a node that is not text; nothing was charged.
        DPMiddlewareError: From a call: the release failed. Holds no text.

    Example:
        >>> index.as_query_engine(
        ...     node_postprocessors=[DPNodePostprocessor(session)]
        ... )  # doctest: +SKIP
    """

    metadata: tuple[str, ...]
    _session: dp.Session = PrivateAttr()

    def __init__(
        self, session: dp.Session | dp.Sanitizer, *, metadata: Collection[str] = ()
    ) -> None:
        keys: Any = {"metadata": public_keys(metadata)}
        session = session_of(session)
        super().__init__(**keys)
        self._session = session

    def __getstate__(self) -> NoReturn:
        raise TypeError("expected a DPNodePostprocessor to stay in its process: make another")

    @classmethod
    def class_name(cls) -> str:
        return "DPNodePostprocessor"

    @unspanned
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return guarded(self._release, nodes)

    @unspanned
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await asyncio.to_thread(guarded, self._release, nodes)

    def _release(self, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        return released(self._session, [scored.node for scored in nodes], self.metadata)
