"""Responses of query engines, as they are shown: with the originals of pseudonyms."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import replace

from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    PydanticResponse,
    StreamingResponse,
)

from dp_middleware._quiet import aclosing, closing
from dp_middleware.conversation.boundary import guarded
from dp_middleware.privacy.receipts import Receipt
from llama_index_dp_middleware._restoring import WHAT, Restoring


def restored(restoring: Restoring, answer: RESPONSE_TYPE, receipt: Receipt) -> RESPONSE_TYPE:
    """A copy of a response, ``metadata`` with the receipt; its nodes stay the released ones.

    Of one that is not in pieces ``metadata["remote_text"]`` is what the remote model wrote.
    """
    if not restoring.changes:
        return answer
    metadata = {**(answer.metadata or {}), "dp": receipt.to_dict()}
    if isinstance(answer, StreamingResponse):
        shown = _pieces(restoring, answer.response_gen)
        return replace(answer, response_gen=shown, metadata=metadata)
    if isinstance(answer, AsyncStreamingResponse):
        ashown = _apieces(restoring, answer.response_gen)
        return replace(answer, response_gen=ashown, metadata=metadata)
    metadata["remote_text"] = str(answer)
    if isinstance(answer, PydanticResponse):
        value = answer.response and restoring.model(answer.response)
        return PydanticResponse(value, answer.source_nodes, metadata)
    text = answer.response and restoring.text(answer.response)
    return replace(answer, response=text, metadata=metadata)


def _pieces(restoring: Restoring, pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    restorer = restoring.restorer("text", json=False)
    with closing(pieces):
        for piece in pieces:
            if shown := guarded(restorer.feed, piece, what=WHAT):
                yield shown
    if rest := guarded(restorer.close, what=WHAT):
        yield rest


async def _apieces(
    restoring: Restoring, pieces: AsyncGenerator[str, None]
) -> AsyncGenerator[str, None]:
    restorer = restoring.restorer("text", json=False)
    async with aclosing(pieces):
        async for piece in pieces:
            if shown := guarded(restorer.feed, piece, what=WHAT):
                yield shown
    if rest := guarded(restorer.close, what=WHAT):
        yield rest
