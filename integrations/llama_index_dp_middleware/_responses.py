"""Responses of query and chat engines: restored, or written by a local model from raw text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import replace

from llama_index.core.base.response import schema as responses
from llama_index.core.schema import NodeWithScore

from dp_middleware._quiet import aclosing, closing
from dp_middleware.conversation.exchange import RESTORATION, Exchange
from dp_middleware.errors import guarded
from dp_middleware.frameworks import inferdpt
from dp_middleware.privacy.releases import Receipt

_INSTRUCTION = "Answer the question that is the Original Text."
_WITH_PASSAGES = "Answer the question at the end of the Original Text from what stands before it."


def for_extractor(query: str, passages: Sequence[NodeWithScore], remote: str) -> inferdpt.Messages:
    """Writes what a local model is asked about a raw query and the raw nodes for it. Private."""
    if not passages:
        return inferdpt.for_extractor(query, remote, _INSTRUCTION)
    document = "\n\n".join([*(scored.node.get_content() for scored in passages), query])
    return inferdpt.for_extractor(document, remote, _WITH_PASSAGES)


def restored(
    exchange: Exchange, answer: responses.RESPONSE_TYPE, receipt: Receipt
) -> responses.RESPONSE_TYPE:
    """Returns a copy of a response, ``metadata`` with the receipt; its nodes stay the released.

    Of one that is not in pieces ``metadata["remote_text"]`` is what the remote model wrote.
    """
    if not exchange.restores:
        return answer
    metadata = {**(answer.metadata or {}), "dp": receipt.to_dict()}
    if isinstance(answer, responses.StreamingResponse):
        pieces = _restored_pieces(exchange, answer.response_gen)
        return replace(answer, response_gen=pieces, metadata=metadata)
    if isinstance(answer, responses.AsyncStreamingResponse):
        later = _arestored_pieces(exchange, answer.response_gen)
        return replace(answer, response_gen=later, metadata=metadata)
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


def _restored_pieces(
    exchange: Exchange, pieces: Generator[str, None, None]
) -> Generator[str, None, None]:
    restorer = exchange.restorer()
    with closing(pieces):
        for piece in pieces:
            yield guarded(restorer.feed, piece, what=RESTORATION)
    yield guarded(restorer.close, what=RESTORATION)


async def _arestored_pieces(
    exchange: Exchange, pieces: AsyncGenerator[str, None]
) -> AsyncGenerator[str, None]:
    restorer = exchange.restorer()
    async with aclosing(pieces):
        async for piece in pieces:
            yield guarded(restorer.feed, piece, what=RESTORATION)
    yield guarded(restorer.close, what=RESTORATION)
