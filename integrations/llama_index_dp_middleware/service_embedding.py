"""The shared embedding service as a LlamaIndex embedding model, which no span records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.schema import BaseNode, MetadataMode
from pydantic import PrivateAttr

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import Location, locate
from llama_index_dp_middleware._silence import unspanned


class ServiceEmbedding(BaseEmbedding):
    """Vectors of raw text from the service that all parts of the process share.

    Releases nothing: vectors of raw text are as private as the text. Its calls make no spans,
    events or callbacks, since those of ``BaseEmbedding`` hold the texts, and it takes no
    ``embeddings_cache``, whose keys are the texts. Batches are the service's.

    Args:
        service: A ``dp.EmbeddingService``; default: the default model's.

    Raises:
        ParameterError: ``service`` is none.
        EmbeddingError: From a call: the model failed. Holds no text.

    Example:
        >>> VectorStoreIndex(nodes, embed_model=ServiceEmbedding())  # doctest: +SKIP
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
        return "ServiceEmbedding"

    @property
    def service(self) -> dp.EmbeddingService:
        """The service."""
        return self._service

    @property
    def location(self) -> Location:
        """Where the model runs that sees the raw text."""
        return locate(self._service.backend)

    @unspanned
    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        self._refuse_cache()
        return self._embedded(texts)

    @unspanned
    async def aget_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        self._refuse_cache()
        return await self._aembedded(texts)

    @unspanned
    def get_text_embedding(self, text: str) -> Embedding:
        return self.get_text_embedding_batch([text])[0]

    @unspanned
    async def aget_text_embedding(self, text: str) -> Embedding:
        return (await self.aget_text_embedding_batch([text]))[0]

    @unspanned
    def get_query_embedding(self, query: str) -> Embedding:
        return self.get_text_embedding(query)

    @unspanned
    async def aget_query_embedding(self, query: str) -> Embedding:
        return await self.aget_text_embedding(query)

    @unspanned
    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        return _fill(nodes, self.get_text_embedding_batch(_texts(nodes)))

    @unspanned
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        return _fill(nodes, await self.aget_text_embedding_batch(_texts(nodes)))

    # what the base class has its own methods call, and requires
    _get_text_embedding = get_text_embedding
    _aget_text_embedding = aget_text_embedding
    _get_query_embedding = get_query_embedding
    _aget_query_embedding = aget_query_embedding
    _get_text_embeddings = get_text_embedding_batch
    _aget_text_embeddings = aget_text_embedding_batch

    def _embedded(self, texts: list[str]) -> list[Embedding]:
        return cast("list[Embedding]", self._service.encode(texts).tolist())

    async def _aembedded(self, texts: list[str]) -> list[Embedding]:
        return cast("list[Embedding]", (await self._service.aencode(texts)).tolist())

    def _refuse_cache(self) -> None:
        if self.embeddings_cache is not None:
            raise ParameterError("expected no embeddings_cache: it would keep raw texts")


def _texts(nodes: Sequence[BaseNode]) -> list[str]:
    return [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]


def _fill(nodes: Sequence[BaseNode], vectors: list[Embedding]) -> Sequence[BaseNode]:
    for node, vector in zip(nodes, vectors, strict=True):
        node.embedding = vector
    return nodes
