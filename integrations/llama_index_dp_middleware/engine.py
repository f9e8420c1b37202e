"""Query engines that see the released query only, around a local retriever and extractor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import BaseNode, QueryBundle, QueryType

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.receipts import receipts
from llama_index_dp_middleware._extraction import ResponseExtraction
from llama_index_dp_middleware._responses import restored
from llama_index_dp_middleware._restoring import Restoring
from llama_index_dp_middleware._retrieval import LocalSearch
from llama_index_dp_middleware._silence import unspanned
from llama_index_dp_middleware.query import DPQueryTransform, require_words


class DPQueryEngine(BaseQueryEngine):
    """Releases a query, has an engine answer it, and may extract the final answer locally.

    The engine, its spans and its models see the released query. ``query`` and ``aquery`` make no
    span or event of their own.

    With ``retriever``, a **local** one over raw text finds nodes for the raw query, unrecorded;
    the engine's synthesizer is given released copies of the nodes and the released query. Which
    nodes are found, how many and in which order depends on raw text and **has no guarantee**. The
    engine's own retriever and postprocessors are not used.

    With a session of pseudonyms the answer has the originals that stood in its query and in its
    ``source_nodes``, and ``metadata["dp"]`` as below. All queries and nodes of
    such a session have the same pseudonyms.

    With ``extractor``, a local model writes the final answer from the raw query, the raw nodes that
    ``retriever`` found and the remote answer. It is private, and must not leave again unsanitized;
    ``metadata["remote_text"]`` is what the remote model wrote, ``metadata["dp"]`` what was released
    and charged, with its certificate.

    Args:
        session: Releases the query and the nodes.
        query_engine: Answers the released query; with ``retriever`` it must have ``synthesize``.
        retriever: Sees the raw query; all that it holds is in process, on loopback or trusted.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
        streaming: Give the extracted answer in pieces, as the extractor writes it.
        metadata: Keys of the nodes' metadata that are public and kept.
        trusted_hosts: Names of further hosts that may see raw text.

    Raises:
        UntrustedHost: The retriever or the extractor would send raw text elsewhere, or holds a
            part of another package of which it is not known.
        ParameterError: ``streaming`` without an extractor; from a call: an image.
        DPMiddlewareError: From a call: a step on private text failed; it holds no text.
        ExtractorError: From a call: the extractor failed. What was charged stays spent.

    Example:
        >>> engine = DPQueryEngine(session, index.as_query_engine(llm=remote))  # doctest: +SKIP
        >>> engine.query("the raw question")  # doctest: +SKIP
    """

    def __init__(
        self,
        session: dp.Session | dp.Sanitizer,
        query_engine: BaseQueryEngine,
        *,
        retriever: BaseRetriever | None = None,
        extractor: Any = None,
        streaming: bool = False,
        metadata: Collection[str] = (),
        trusted_hosts: Iterable[str] = (),
    ) -> None:
        if streaming and extractor is None:
            raise ParameterError("expected extractor= with streaming; set it on the inner engine")
        trusted = trusted_hosts if isinstance(trusted_hosts, str) else tuple(trusted_hosts)
        super().__init__(callback_manager=None)
        self._transform = DPQueryTransform(session)
        self._search = LocalSearch(self._transform.session, retriever, metadata, trusted)
        self._inner = query_engine
        self._extraction = None
        if extractor is not None:
            self._extraction = ResponseExtraction(extractor, trusted, streaming=streaming)

    def __repr__(self) -> str:
        return f"DPQueryEngine({self._transform.session!r}, {type(self._inner).__name__})"

    @classmethod
    def class_name(cls) -> str:
        return "DPQueryEngine"

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self._inner}

    @unspanned
    def query(self, str_or_query_bundle: QueryType) -> RESPONSE_TYPE:
        """Answer a raw query."""
        return self._query(_bundle(str_or_query_bundle))

    @unspanned
    async def aquery(self, str_or_query_bundle: QueryType) -> RESPONSE_TYPE:
        """As :meth:`query`, without blocking the event loop."""
        return await self._aquery(_bundle(str_or_query_bundle))

    @unspanned
    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        require_words(query_bundle)
        with receipts() as receipt:
            passages, nodes = self._search.find(query_bundle)
            released = self._transform.run(query_bundle)
        if self._search.retriever is None:
            answer = self._inner.query(released)
        else:
            answer = self._inner.synthesize(released, nodes)
        restoring = self._restoring(query_bundle, passages, answer)
        if self._extraction is None:
            return restored(restoring, answer, receipt)
        return self._extraction.extract(
            query_bundle.query_str, passages, answer, receipt, restoring.text
        )

    @unspanned
    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        require_words(query_bundle)
        with receipts() as receipt:
            passages, nodes = await self._search.afind(query_bundle)
            released = await self._transform.arun(query_bundle)
        if self._search.retriever is None:
            answer = await self._inner.aquery(released)
        else:
            answer = await self._inner.asynthesize(released, nodes)
        restoring = await asyncio.to_thread(self._restoring, query_bundle, passages, answer)
        if self._extraction is None:
            return await asyncio.to_thread(restored, restoring, answer, receipt)
        return await self._extraction.aextract(
            query_bundle.query_str, passages, answer, receipt, restoring.text
        )

    def _restoring(
        self, query: QueryBundle, passages: Sequence[BaseNode], answer: RESPONSE_TYPE
    ) -> Restoring:
        """The way back of an answer to what was released for a query and its nodes."""
        quoted = [scored.node.get_content() for scored in answer.source_nodes]
        return Restoring(self._transform.exchange(query, passages, quoted))


def _bundle(query: QueryType) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query
