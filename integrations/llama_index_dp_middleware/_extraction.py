"""The final answer, written by a local model from the raw query and the remote answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.schema import BaseNode

from dp_middleware._quiet import in_thread
from dp_middleware.frameworks import inferdpt
from dp_middleware.models.local import local_model
from dp_middleware.privacy.receipts import Receipt

T = TypeVar("T")

_INSTRUCTION = "Answer the question that is the Original Text."
_WITH_PASSAGES = "Answer the question at the end of the Original Text from what stands before it."


class ResponseExtraction:
    """A local model that is given raw queries, unrecorded.

    Args:
        extractor: What :func:`dp.chat_model` takes.
        trusted_hosts: Names of further hosts that may see raw text.
        streaming: Give the answer in pieces.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
    """

    def __init__(
        self,
        extractor: Any,
        trusted_hosts: Iterable[str],
        *,
        streaming: bool,
    ) -> None:
        self._model = local_model(extractor, trusted_hosts)
        self._streaming = streaming

    def extract(
        self,
        query: str,
        passages: Sequence[BaseNode],
        answer: RESPONSE_TYPE,
        receipt: Receipt,
        restore: Callable[[str], str],
    ) -> RESPONSE_TYPE:
        """Returns a private response, from raw passages.

        Args:
            query: Private.
            passages: Private.
            answer: The remote model's, which ``metadata`` keeps.
            receipt: For ``metadata``.
            restore: What the local model is told of a remote answer.
        """
        if isinstance(answer, StreamingResponse):
            answer = answer.get_response()
        question, kept = self._asked(query, passages, answer, receipt, restore)
        if self._streaming:
            return StreamingResponse(response_gen=self._model.stream(question), **kept)
        return Response(self._model(question), **kept)

    async def aextract(
        self,
        query: str,
        passages: Sequence[BaseNode],
        answer: RESPONSE_TYPE,
        receipt: Receipt,
        restore: Callable[[str], str],
    ) -> RESPONSE_TYPE:
        """As :meth:`extract`, without blocking the event loop."""
        if isinstance(answer, AsyncStreamingResponse):
            answer = await answer.get_response()
        question, kept = self._asked(query, passages, answer, receipt, restore)
        if self._streaming:
            return AsyncStreamingResponse(apieces(self._model.stream(question)), **kept)
        return Response(await self._model.acall(question), **kept)

    @staticmethod
    def _asked(
        query: str,
        passages: Sequence[BaseNode],
        answer: RESPONSE_TYPE,
        receipt: Receipt,
        restore: Callable[[str], str],
    ) -> tuple[inferdpt.Messages, Any]:
        """What the local model is asked, and what else its response has."""
        remote = str(answer)
        metadata = {"remote_text": remote, "dp": receipt.to_dict()}
        kept = {"source_nodes": answer.source_nodes, "metadata": metadata}
        return for_extractor(query, passages, restore(remote)), kept


def for_extractor(query: str, passages: Sequence[BaseNode], remote: str) -> inferdpt.Messages:
    """What a local model is asked about a raw query and the raw nodes found for it. Private."""
    if not passages:
        return inferdpt.for_extractor(query, remote, _INSTRUCTION)
    document = "\n\n".join([*(node.get_content() for node in passages), query])
    return inferdpt.for_extractor(document, remote, _WITH_PASSAGES)


async def apieces(pieces: Generator[T, None, None]) -> AsyncGenerator[T, None]:
    """A generator's items, each step in a thread."""
    try:
        while (piece := await in_thread(next, pieces, None)) is not None:
            yield piece
    finally:
        with suppress(ValueError):  # cancelled while a thread waits for the next piece
            pieces.close()
