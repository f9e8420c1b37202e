"""Query engines that see the released query only, around a local retriever and extractor."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any
from uuid import uuid4

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response import schema as responses
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType

import dp_middleware as dp
from dp_middleware._quiet import afed, fed, in_thread, pieces_in_thread
from dp_middleware.conversation.events import public_texts
from dp_middleware.conversation.exchange import RESTORATION, Exchange
from dp_middleware.conversation.messages import Message
from dp_middleware.conversation.session import session_of
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.frameworks import inferdpt
from dp_middleware.models.chat import local_model
from dp_middleware.models.trust import require_local
from dp_middleware.privacy.releases import Receipt, receipts
from llama_index_dp_middleware._blocks import in_block, unrecorded, unspanned
from llama_index_dp_middleware.nodes import CONVERSATION, release_scored

_INSTRUCTION = "Answer the question that is the Original Text."
_WITH_PASSAGES = "Answer the question at the end of the Original Text from what stands before it."

Found = tuple[list[NodeWithScore], list[NodeWithScore]]
"""Raw nodes, and their released copies."""


class DPQueryEngine(BaseQueryEngine):
    """Releases a query, has an engine answer it, and may extract the final answer locally.

    The engine, its spans and its models see the released query; no other span or event is made.

    With ``retriever``, a **local** one over raw text finds nodes for the raw query, unrecorded, in
    asynchronous calls in a thread; the engine's synthesizer is given released copies of them, its
    own retriever and postprocessors are not used. Which nodes are found, how many and in which
    order **has no guarantee**.

    With a session of pseudonyms the answer has the originals that stood in its query and in its
    ``source_nodes``; all queries and nodes of a session have the same ones. With ``extractor``, a
    local model writes the answer from the raw query, the raw nodes that ``retriever`` found and the
    remote answer: it is private. Then ``metadata["remote_text"]`` is what the remote model wrote,
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
        UntrustedHost: The retriever or the extractor would send raw text elsewhere, or it holds a
            part of another package of which it is not known.
        DPMiddlewareError: From a call: an image, or a step failed. Holds no text; what was charged
            stays spent.
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
        if retriever is not None:
            require_local(retriever, trusted)
        self._retriever, self._metadata = retriever, public_texts(metadata, "metadata")
        self._inner = query_engine
        self._extractor = None if extractor is None else local_model(extractor, trusted)
        self._streaming = streaming

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self._inner}

    @unspanned
    def query(self, str_or_query_bundle: QueryType) -> responses.RESPONSE_TYPE:
        query = _bundle(str_or_query_bundle)
        receipt, (passages, nodes), released = self._release(query)
        inner, is_found = self._inner, self._retriever is not None
        answer = inner.synthesize(released, nodes) if is_found else inner.query(released)
        exchange = self._exchange(query, passages, answer)
        if self._extractor is None:
            return _restored(exchange, answer, receipt)
        if isinstance(answer, responses.StreamingResponse):
            answer = answer.get_response()
        question, kept = _extraction(exchange, query, passages, answer, receipt)
        if self._streaming:
            return responses.StreamingResponse(self._extractor.stream(question), **kept)
        return responses.Response(self._extractor(question), **kept)

    @unspanned
    async def aquery(self, str_or_query_bundle: QueryType) -> responses.RESPONSE_TYPE:
        query = _bundle(str_or_query_bundle)
        receipt, (passages, nodes), released = await in_thread(self._release, query)
        inner, is_found = self._inner, self._retriever is not None
        pending = inner.asynthesize(released, nodes) if is_found else inner.aquery(released)
        answer = await pending
        exchange = await in_thread(self._exchange, query, passages, answer)
        if self._extractor is None:
            return _restored(exchange, answer, receipt)
        if isinstance(answer, responses.AsyncStreamingResponse):
            answer = await answer.get_response()
        question, kept = _extraction(exchange, query, passages, answer, receipt)
        if self._streaming:
            pieces = pieces_in_thread(self._extractor.stream(question))
            return responses.AsyncStreamingResponse(pieces, **kept)
        return responses.Response(await self._extractor.acall(question), **kept)

    _query: Any = query  # what the base class requires
    _aquery: Any = aquery

    def _release(self, query: QueryBundle) -> tuple[Receipt, Found, QueryBundle]:
        """Finds nodes for a query, unrecorded, and releases both."""
        with receipts() as receipt:
            if self._retriever is None:
                return receipt, ([], []), self._transform.run(query)
            with unrecorded():
                raw = guarded(self._retriever.retrieve, query, what="the retriever")
            nodes = guarded(release_scored, self._transform.session, raw, self._metadata)
            return receipt, (raw, nodes), self._transform.run(query)

    def _exchange(
        self, query: QueryBundle, passages: list[NodeWithScore], answer: responses.RESPONSE_TYPE
    ) -> Exchange:
        quoted = [scored.node.get_content() for scored in answer.source_nodes]
        return self._transform.exchange(query, passages, quoted)


def _extraction(
    exchange: Exchange,
    query: QueryBundle,
    passages: Sequence[NodeWithScore],
    answer: Any,
    receipt: Receipt,
) -> tuple[inferdpt.Messages, dict[str, Any]]:
    """Writes what a local model is asked about a raw query and the raw nodes for it. Private."""
    remote, texts = str(answer), [scored.node.get_content() for scored in passages]
    document = "\n\n".join([*texts, query.query_str])
    instruction = _WITH_PASSAGES if texts else _INSTRUCTION
    question = inferdpt.for_extractor(document, exchange.restore(remote), instruction)
    metadata = {"remote_text": remote, "dp": receipt.to_dict()}
    return question, {"source_nodes": answer.source_nodes, "metadata": metadata}


def _bundle(query: QueryType) -> QueryBundle:
    bundle = QueryBundle(query) if isinstance(query, str) else query
    require_words(bundle)
    return bundle


# responses: restored, or written by a local model from raw text --------------------------------


def _restored(
    exchange: Exchange, answer: responses.RESPONSE_TYPE, receipt: Receipt
) -> responses.RESPONSE_TYPE:
    """Returns a copy of a response with the originals and the receipt; its nodes stay released."""
    if not exchange.restores:
        return answer
    metadata = {**(answer.metadata or {}), "dp": receipt.to_dict()}
    if isinstance(answer, responses.StreamingResponse | responses.AsyncStreamingResponse):
        way: Any = fed if isinstance(answer, responses.StreamingResponse) else afed
        words = exchange.restorer()
        pieces = way(answer.response_gen, words.feed, lambda: [words.close()])
        return replace(answer, response_gen=pieces, metadata=metadata)
    metadata["remote_text"] = str(answer)
    if isinstance(answer, responses.PydanticResponse):
        value = answer.response
        if value is not None:
            text = exchange.restore(value.model_dump_json(), json=True)
            value = guarded(type(value).model_validate_json, text, what=RESTORATION)
        return responses.PydanticResponse(value, answer.source_nodes, metadata)
    return replace(
        answer, response=answer.response and exchange.restore(answer.response), metadata=metadata
    )


class DPQueryTransform(BaseQueryTransform):
    """Gives a new query bundle that holds the query as its session releases it, and nothing else.

    One bundle has one release, though ``TransformQueryEngine`` transforms it twice. Bundles are
    told apart as objects: an equal query in another one is a new release, as is every plain string.
    ``TransformQueryEngine.query`` itself records the raw query; :class:`DPQueryEngine` does not.
    """

    def __init__(self, session: dp.Session | dp.Sanitizer) -> None:
        self.session = session_of(session)
        self._events: dict[int, str] = {}
        self._lock = Lock()

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are none."""

    @unspanned
    def _run(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:
        return self._release(query_bundle)

    async def arun(self, query_bundle: QueryBundle) -> QueryBundle:
        return await asyncio.to_thread(self._release, query_bundle)

    def _release(self, bundle: QueryBundle) -> QueryBundle:
        [sent] = self.exchange(bundle).sent
        return QueryBundle(sent.text)

    def exchange(
        self, bundle: QueryBundle, nodes: Sequence[NodeWithScore] = (), quoted: Iterable[str] = ()
    ) -> Exchange:
        """Releases a query behind nodes for it; ``quoted``: released ones, found by an engine."""
        require_words(bundle)
        with self._lock:  # a bundle keeps the id of its event for as long as it lives
            if id(bundle) not in self._events:
                self._events[id(bundle)] = str(uuid4())
                weakref.finalize(bundle, self._events.pop, id(bundle), None)
            event_id = self._events[id(bundle)]
        passages = {scored.node.id_: scored.node.get_content() for scored in nodes}
        transcript = [
            *(Message(role="tool", texts=(text,), id=name) for name, text in passages.items()),
            Message(role="user", texts=(bundle.query_str,), id=event_id),
        ]
        session = in_block(self.session)
        return session.exchange(transcript, conversation=CONVERSATION, quoted=quoted)


def require_words(bundle: QueryBundle) -> None:
    """Refuses a query with an image, before anything is charged or sees it."""
    if bundle.image_path is not None:
        raise ParameterError("expected a query of text only; an image cannot be released")
