"""Query engines that see the released query only, around a local retriever and extractor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
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


class DPQueryEngine(BaseQueryEngine):
    """Releases a query, has an engine answer it, and may extract the final answer locally.

    The engine, its spans and its models see the released query; no other span or event is made.

    With ``retriever``, a **local** one over raw text finds nodes for the raw query, unrecorded; the
    engine's synthesizer is given released copies of them, its own retriever and postprocessors are
    not used. Which nodes are found, how many and in which order **has no guarantee**.

    With a session of pseudonyms the answer has the originals that stood in its query and in its
    ``source_nodes``. With ``extractor``, a local model writes the answer, private, from the raw
    query and nodes and the remote answer; ``metadata["remote_text"]`` is what the remote model
    wrote, ``metadata["dp"]`` what was released and charged, with its certificate.

    Args:
        session: Releases the query and the nodes.
        query_engine: Answers the released query; with ``retriever`` it must have ``synthesize``.
        retriever: Sees the raw query; all that it holds is in process, on loopback or trusted.
        extractor: What :func:`dp.chat_model` takes; in process, on loopback or on a trusted host.
        streaming: Give the extracted answer in pieces, as the extractor writes it.
        metadata: Keys of the nodes' metadata that are public and kept.
        trusted_hosts: Names of further hosts that may see raw text.

    Raises:
        UntrustedHost: The retriever or the extractor would send raw text elsewhere, or may.
        DPMiddlewareError: From a call, without text: an image, or a step failed.
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
        asked = self._asked(str_or_query_bundle)
        answer = getattr(self._inner, asked.way)(*asked.sent)
        exchange = self._exchange(asked, answer)
        if self._extractor is None:
            return _restored(exchange, answer, asked.receipt)
        if isinstance(answer, responses.StreamingResponse):
            answer = answer.get_response()
        question, kept = asked.extraction(exchange, answer)
        if self._streaming:
            return responses.StreamingResponse(self._extractor.stream(question), **kept)
        return responses.Response(self._extractor(question), **kept)

    @unspanned
    async def aquery(self, str_or_query_bundle: QueryType) -> responses.RESPONSE_TYPE:
        asked = await in_thread(self._asked, str_or_query_bundle)
        answer = await getattr(self._inner, f"a{asked.way}")(*asked.sent)
        exchange = await in_thread(self._exchange, asked, answer)
        if self._extractor is None:
            return _restored(exchange, answer, asked.receipt)
        if isinstance(answer, responses.AsyncStreamingResponse):
            answer = await answer.get_response()
        question, kept = asked.extraction(exchange, answer)
        if self._streaming:
            pieces = pieces_in_thread(self._extractor.stream(question))
            return responses.AsyncStreamingResponse(pieces, **kept)
        return responses.Response(await self._extractor.acall(question), **kept)

    _query: Any = query  # what the base class requires
    _aquery: Any = aquery

    def _asked(self, asked: QueryType) -> _Asked:
        """Finds nodes for a query, unrecorded, and releases both."""
        query = QueryBundle(asked) if isinstance(asked, str) else asked
        require_words(query)
        with receipts() as receipt:
            if self._retriever is None:
                return _Asked(query, [], "query", (self._transform.run(query),), receipt)
            with unrecorded():
                raw = guarded(self._retriever.retrieve, query, what="the retriever")
            nodes = guarded(release_scored, self._transform.session, raw, self._metadata)
            return _Asked(query, raw, "synthesize", (self._transform.run(query), nodes), receipt)

    def _exchange(self, asked: _Asked, answer: responses.RESPONSE_TYPE) -> Exchange:
        quoted = [scored.node.get_content() for scored in answer.source_nodes]
        return self._transform.exchange(asked.query, asked.passages, quoted)


class _Asked(NamedTuple):
    """A query and the nodes for it, both raw, and what an engine is asked in their place."""

    query: QueryBundle
    passages: list[NodeWithScore]
    way: str  # the engine's method
    sent: tuple[Any, ...]  # its arguments
    receipt: Receipt

    def extraction(
        self, exchange: Exchange, answer: Any
    ) -> tuple[inferdpt.Messages, dict[str, Any]]:
        """Writes what a local model is asked about the raw query and nodes. Private."""
        remote, texts = str(answer), [scored.node.get_content() for scored in self.passages]
        document = "\n\n".join([*texts, self.query.query_str])
        instruction = _WITH_PASSAGES if texts else _INSTRUCTION
        question = inferdpt.for_extractor(document, exchange.restore(remote), instruction)
        metadata = {"remote_text": remote, "dp": self.receipt.to_dict()}
        return question, {"source_nodes": answer.source_nodes, "metadata": metadata}


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
    shown = answer.response and exchange.restore(answer.response)
    return replace(answer, response=shown, metadata=metadata)


class DPQueryTransform(BaseQueryTransform):
    """Gives a new query bundle that holds the query as its session releases it, and nothing else.

    One bundle has one release, though ``TransformQueryEngine`` transforms it twice. Bundles are
    told apart as objects: an equal query in another one is a new release, as is every plain string.
    ``TransformQueryEngine.query`` itself records the raw query; :class:`DPQueryEngine` does not.
    """

    def __init__(self, session: dp.Session | dp.Sanitizer) -> None:
        self.session = session_of(session)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are none."""

    @unspanned
    def _run(self, query_bundle: QueryBundle, metadata: dict[str, Any]) -> QueryBundle:
        [sent] = self.exchange(query_bundle).sent
        return QueryBundle(sent.text)

    async def arun(self, query_bundle: QueryBundle) -> QueryBundle:
        return await asyncio.to_thread(self._run, query_bundle, {})

    def exchange(
        self, bundle: QueryBundle, nodes: Sequence[NodeWithScore] = (), quoted: Iterable[str] = ()
    ) -> Exchange:
        """Releases a query behind nodes for it; ``quoted``: released ones, found by an engine."""
        require_words(bundle)
        event_id = vars(bundle).setdefault("_dp_event", str(uuid4()))  # for as long as it lives
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
