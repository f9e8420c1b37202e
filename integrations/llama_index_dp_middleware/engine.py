"""Query engines that see the released query only, around a local retriever and extractor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

import dp_middleware as dp
from dp_middleware.conversation.exchange import Exchange
from dp_middleware.errors import ParameterError
from dp_middleware.models.local import local_model
from dp_middleware.privacy.receipts import Receipt, receipts
from llama_index_dp_middleware._responses import apieces, for_extractor, restored
from llama_index_dp_middleware._search import LocalSearch
from llama_index_dp_middleware._silence import unspanned
from llama_index_dp_middleware.query import DPQueryTransform, require_words


class DPQueryEngine(BaseQueryEngine):
    """Releases a query, has an engine answer it, and may extract the final answer locally.

    The engine, its spans and its models see the released query. ``query`` and ``aquery`` make no
    span or event of their own.

    With ``retriever``, a **local** one over raw text finds nodes for the raw query, unrecorded; the
    engine's synthesizer is given released copies of the nodes and the released query, its own
    retriever and postprocessors are not used. Which nodes are found, how many and in which order
    **has no guarantee**.

    With a session of pseudonyms the answer has the originals that stood in its query and in its
    ``source_nodes``. All queries and nodes of such a session have the same pseudonyms.

    With ``extractor``, a local model writes the final answer from the raw query, the raw nodes that
    ``retriever`` found and the remote answer. It is private, and must not leave again unsanitized.
    Of both kinds of answers ``metadata["remote_text"]`` is what the remote model wrote,
    ``metadata["dp"]`` what was released and charged, with its certificate.

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
        self._extractor = None if extractor is None else local_model(extractor, trusted)
        self._streaming = streaming

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
        exchange = self._exchange(query_bundle, passages, answer)
        if self._extractor is None:
            return restored(exchange, answer, receipt)
        if isinstance(answer, StreamingResponse):
            answer = answer.get_response()
        remote, kept = self._kept(answer, receipt)
        question = for_extractor(query_bundle.query_str, passages, exchange.restore(remote))
        if self._streaming:
            return StreamingResponse(response_gen=self._extractor.stream(question), **kept)
        return Response(self._extractor(question), **kept)

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
        exchange = await asyncio.to_thread(self._exchange, query_bundle, passages, answer)
        if self._extractor is None:
            return restored(exchange, answer, receipt)
        if isinstance(answer, AsyncStreamingResponse):
            answer = await answer.get_response()
        remote, kept = self._kept(answer, receipt)
        question = for_extractor(query_bundle.query_str, passages, exchange.restore(remote))
        if self._streaming:
            return AsyncStreamingResponse(apieces(self._extractor.stream(question)), **kept)
        return Response(await self._extractor.acall(question), **kept)

    def _exchange(
        self, query: QueryBundle, passages: list[NodeWithScore], answer: RESPONSE_TYPE
    ) -> Exchange:
        """Returns the way back of an answer to what was released for a query and its nodes."""
        quoted = [scored.node.get_content() for scored in answer.source_nodes]
        return self._transform.exchange(query, passages, quoted)

    @staticmethod
    def _kept(answer: RESPONSE_TYPE, receipt: Receipt) -> tuple[str, dict[str, Any]]:
        """Returns what the remote model wrote, and what an extracted response keeps of it."""
        metadata = {"remote_text": str(answer), "dp": receipt.to_dict()}
        return str(answer), {"source_nodes": answer.source_nodes, "metadata": metadata}


def _bundle(query: QueryType) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query
