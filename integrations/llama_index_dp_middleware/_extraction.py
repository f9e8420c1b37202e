"""The final answer, written by a local model from the raw query and the remote answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import suppress
from typing import Any

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)

from dp_middleware.frameworks import inferdpt
from dp_middleware.models.local import local_model
from dp_middleware.unrecorded.threads import in_thread

_INSTRUCTION = "Answer the question that is the Original Text."


class Extraction:
    """A local model that is given raw queries, unrecorded.

    Args:
        extractor: What :func:`dp.chat_model` takes.
        trusted_hosts: Names of further hosts that may see raw text.
        streaming: Give the answer in pieces.

    Raises:
        UntrustedHost: The extractor would send raw text elsewhere.
    """

    def __init__(self, extractor: Any, trusted_hosts: Iterable[str], *, streaming: bool) -> None:
        self._model = local_model(extractor, trusted_hosts)
        self._streaming = streaming

    def extracted(self, query: str, answer: RESPONSE_TYPE) -> RESPONSE_TYPE:
        """A private response; ``metadata`` has the remote text."""
        remote = str(answer.get_response() if isinstance(answer, StreamingResponse) else answer)
        question = inferdpt.for_extractor(query, remote, _INSTRUCTION)
        kept: Any = {"source_nodes": answer.source_nodes, "metadata": {"remote_text": remote}}
        if self._streaming:
            return StreamingResponse(response_gen=self._model.stream(question), **kept)
        return Response(self._model(question), **kept)

    async def aextracted(self, query: str, answer: RESPONSE_TYPE) -> RESPONSE_TYPE:
        """As :meth:`extracted`, without blocking the event loop."""
        if isinstance(answer, AsyncStreamingResponse):
            answer = await answer.get_response()
        remote = str(answer)
        question = inferdpt.for_extractor(query, remote, _INSTRUCTION)
        kept: Any = {"source_nodes": answer.source_nodes, "metadata": {"remote_text": remote}}
        if self._streaming:
            return AsyncStreamingResponse(_apieces(self._model.stream(question)), **kept)
        return Response(await self._model.acall(question), **kept)


async def _apieces(pieces: Generator[str, None, None]) -> AsyncGenerator[str, None]:
    try:
        while (piece := await in_thread(next, pieces, None)) is not None:
            yield piece
    finally:
        with suppress(ValueError):  # cancelled while a thread waits for the next piece
            pieces.close()
