"""Embedding models of raw text: the shared service, and one whose vectors are released."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast
from uuid import uuid4

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.schema import BaseNode, MetadataMode
from pydantic import PrivateAttr

import dp_middleware as dp
from dp_middleware.errors import ParameterError, guarded
from dp_middleware.models.embedders import embedding_service
from dp_middleware.models.trust import Location, locate
from dp_middleware.privacy.releases import Ledger
from dp_middleware.sanitizers.vectors import VectorSanitizer
from llama_index_dp_middleware._blocks import unspanned


class ServiceEmbedding(BaseEmbedding):
    """Gives vectors of raw text from the service that all parts of the process share.

    Releases nothing: vectors of raw text are as private as the text. Its calls make no spans,
    events or callbacks, and it takes no ``embeddings_cache``, whose keys are the texts.

    Args:
        service: A ``dp.EmbeddingService``; default: the default model's.

    Raises:
        EmbeddingError: From a call: the model failed. Holds no text.
    """

    _service: dp.EmbeddingService = PrivateAttr()

    def __init__(self, service: dp.EmbeddingService | None = None) -> None:
        service = dp.EmbeddingService() if service is None else service
        if not isinstance(service, dp.EmbeddingService):
            raise ParameterError(f"expected a dp.EmbeddingService, got {type(service).__name__}")
        name = getattr(service.backend, "model", type(service.backend).__name__)
        super().__init__(model_name=name)
        self._service = service

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__

    @property
    def service(self) -> dp.EmbeddingService:
        return self._service

    @property
    def location(self) -> Location:
        """Where the model runs that sees the raw text."""
        return locate(self._service.backend)

    @unspanned
    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        if self.embeddings_cache is not None:
            raise ParameterError("expected no embeddings_cache: it would keep raw texts")
        return self._embed(texts)

    @unspanned
    async def aget_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        return await asyncio.to_thread(self.get_text_embedding_batch, texts)

    @unspanned
    def get_text_embedding(self, text: str) -> Embedding:
        return self.get_text_embedding_batch([text])[0]

    @unspanned
    async def aget_text_embedding(self, text: str) -> Embedding:
        return (await self.aget_text_embedding_batch([text]))[0]

    @unspanned
    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        texts = [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        for node, vector in zip(nodes, self.get_text_embedding_batch(texts), strict=True):
            node.embedding = vector
        return nodes

    @unspanned
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        return await asyncio.to_thread(self, nodes)

    # what the base class has its own methods call, and requires
    _get_text_embedding, _aget_text_embedding = get_text_embedding, aget_text_embedding
    get_query_embedding = _get_query_embedding = get_text_embedding  # type: ignore[assignment]
    aget_query_embedding = _aget_query_embedding = aget_text_embedding  # type: ignore[assignment]
    _get_text_embeddings = get_text_embedding_batch
    _aget_text_embeddings = aget_text_embedding_batch

    def _embed(self, texts: list[str]) -> list[Embedding]:
        return cast("list[Embedding]", self._service.encode(texts).tolist())


class DPEmbedding(ServiceEmbedding):
    """Embeds locally and releases one random vector per text, queries and documents alike.

    The guarantee holds between any two texts. Every text of every call is a new release and a new
    charge. Nodes keep their raw text: store the vectors alone, or use a :class:`DPTransform`, too.

    Args:
        response: A ``dp.VectorResponse``.
        inner: A local embedding model of LlamaIndex or LangChain, or a ``dp.EmbeddingService``;
            default: the default model's. It sees raw text.
        ledger: Charged once per text, before the draw.
        subject: Whose budget is charged; needed with a ledger.
        trusted_hosts: Hosts that may see raw text.

    Raises:
        UntrustedHost: The inner model is elsewhere.
        DPMiddlewareError: From a call: the release failed. Holds no text.
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

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Does as that of :class:`DPTransform`: no cache gives one text's release for another."""
        return {**super().to_dict(**kwargs), "salt": uuid4().hex}

    def _embed(self, texts: list[str]) -> list[Embedding]:
        return guarded(self._vectors.release, texts)
