"""Released vectors of raw texts, for an index or a vector store that may not see the raw."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from llama_index.core.base.embeddings.base import Embedding
from pydantic import PrivateAttr

import dp_middleware as dp
from dp_middleware.conversation.boundary import guarded
from dp_middleware.models.embedders import embedding_service
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.vectors import VectorSanitizer
from llama_index_dp_middleware.service_embedding import ServiceEmbedding


class DPEmbedding(ServiceEmbedding):
    """Embeds locally and releases one random vector per text, queries and documents alike.

    The guarantee holds between any two texts. Every text of every call is a new release and a new
    charge. Nodes keep their raw text: store the vectors alone, or release the texts, too, with a
    :class:`DPTransform`. Its calls make no spans, events or callbacks.

    Args:
        response: A ``dp.VectorResponse``.
        inner: A local embedding model: a LlamaIndex or LangChain one, or a ``dp.EmbeddingService``;
            default: the default model's. It sees raw text.
        ledger: Charged once per text, before the draw. Of a session: ``session.sanitizer.ledger``.
        subject: Whose budget is charged; needed with a ledger.
        trusted_hosts: Hosts that may see raw text.

    Raises:
        ParameterError: No ``dp.VectorResponse``, no embedding model, or a ledger without subject.
        UntrustedHost: The inner model is elsewhere.
        DPMiddlewareError: From a call: the release failed. Holds no text.

    Example:
        >>> VectorStoreIndex(
        ...     nodes, embed_model=DPEmbedding(dp.VectorResponse(epsilon=50))
        ... )  # doctest: +SKIP
    """

    _vectors: VectorSanitizer = PrivateAttr()

    def __init__(
        self,
        response: dp.VectorResponse,
        inner: Any = None,
        *,
        ledger: Ledger | None = None,
        subject: str | None = None,
        trusted_hosts: Iterable[str] = (),
    ) -> None:
        model = dp.EmbeddingService() if inner is None else inner
        service = embedding_service(model, trusted_hosts=trusted_hosts)
        vectors = VectorSanitizer(response, service, ledger=ledger, subject=subject)
        super().__init__(service)
        self._vectors = vectors

    @classmethod
    def class_name(cls) -> str:
        return "DPEmbedding"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Fields, and a random one that nobody keeps.

        An ingestion cache knows a vector by an unsalted hash of raw text and this. So it never
        gives one text's release for another, which would tell that both are equal, and be free.
        """
        return {**super().to_dict(**kwargs), "salt": uuid4().hex}

    def _embedded(self, texts: list[str]) -> list[Embedding]:
        return guarded(self._vectors.release, texts)

    async def _aembedded(self, texts: list[str]) -> list[Embedding]:
        return await asyncio.to_thread(self._embedded, texts)
