"""The shared embedding service as a LangChain embedding model."""

from __future__ import annotations

from typing import cast

from langchain_core.embeddings import Embeddings

import dp_middleware as dp
from dp_middleware.errors import ParameterError
from dp_middleware.models.trust import Location, locate


class ServiceEmbeddings(Embeddings):
    """Vectors of raw text from the service that all parts of the process share.

    Releases nothing: vectors of raw text are as private as the text. For a vector store or a
    model outside, use :class:`DPEmbeddings`. LangChain does not trace embedding models.

    Args:
        service: A ``dp.EmbeddingService``; default: the default model's.

    Attributes:
        service: The service.

    Raises:
        ParameterError: ``service`` is none.
        EmbeddingError: From a call: the model failed. Holds no text.

    Example:
        >>> import numpy as np
        >>> import dp_middleware as dp
        >>> class Lengths:
        ...     def encode(self, texts):
        ...         return np.array([[len(text), 1.0] for text in texts])
        >>> ServiceEmbeddings(dp.EmbeddingService.of(Lengths())).embed_query("")
        [0.0, 1.0]
    """

    def __init__(self, service: dp.EmbeddingService | None = None) -> None:
        service = dp.EmbeddingService() if service is None else service
        if not isinstance(service, dp.EmbeddingService):
            raise ParameterError(f"expected a dp.EmbeddingService, got {type(service).__name__}")
        self.service = service

    def __repr__(self) -> str:
        return f"ServiceEmbeddings({self.service!r})"

    @property
    def location(self) -> Location:
        """Where the model runs that sees the raw text."""
        return locate(self.service.backend)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector per text."""
        return cast("list[list[float]]", self.service.encode(texts).tolist())

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of a text."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As :meth:`embed_documents`, without blocking the event loop."""
        return cast("list[list[float]]", (await self.service.aencode(texts)).tolist())

    async def aembed_query(self, text: str) -> list[float]:
        """As :meth:`embed_query`, without blocking the event loop."""
        return (await self.aembed_documents([text]))[0]
