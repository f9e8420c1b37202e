"""Embedding models of frameworks behind the shared service, by what they can do."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import Context
from typing import Any, NamedTuple

from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import Encode
from dp_middleware.embedding.encoders import Given
from dp_middleware.errors import ParameterError
from dp_middleware.frameworks import recording
from dp_middleware.frameworks.adapters.llama_index import skip_unrecorded
from dp_middleware.frameworks.embedding_server import EmbeddingServer
from dp_middleware.frameworks.trust import Location, locate, require_trusted


def embedding_service(model: Any, *, trusted_hosts: Iterable[str] = ()) -> EmbeddingService:
    """The service that all callers of this model share.

    Its calls leave no record: no callbacks, spans, traces or vendors' logs.

    Args:
        model: A LangChain ``Embeddings``, a LlamaIndex ``BaseEmbedding``, or what
            :meth:`EmbeddingService.of` takes, such as an :class:`EmbeddingServer`. It sees raw
            text.
        trusted_hosts: Host names, without scheme or port, that may see raw text.

    Raises:
        UntrustedHost: It runs elsewhere, or it is unknown where.
        ParameterError: None of these, or it keeps raw texts in a cache.

    Example:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> embedding_service(DeterministicFakeEmbedding(size=3)).encode(["a", "b"]).shape
        (2, 3)
    """
    if callable(getattr(model, "embed_documents", None)):
        return EmbeddingService.of(_LangChain(model, trusted_hosts))
    if callable(getattr(model, "get_text_embedding_batch", None)):
        return EmbeddingService.of(_LlamaIndex(model, trusted_hosts))
    service = EmbeddingService.of(model)
    if not isinstance(service.backend, EmbeddingServer | _Framework):  # these were checked
        require_trusted(_Located(locate(service.backend)), trusted_hosts)
    return service


class _Located(NamedTuple):
    location: Location


class _Framework(Given):
    """Equal to others around the same object, whoever is trusted: an object was checked or not."""

    def __init__(self, inner: Any, trusted_hosts: Iterable[str]) -> None:
        super().__init__(inner)
        require_trusted(self, trusted_hosts)

    @property
    def location(self) -> Location:
        """Where the model runs."""
        return locate(self.inner)


class _LangChain(_Framework):
    def open(self) -> Encode:
        return lambda texts: recording.call_unrecorded(Context(), self.inner.embed_documents, texts)


class _LlamaIndex(_Framework):
    def __init__(self, inner: Any, trusted_hosts: Iterable[str]) -> None:
        if getattr(inner, "embeddings_cache", None) is not None:
            raise ParameterError("expected a model without embeddings_cache, which keeps raw texts")
        super().__init__(inner, trusted_hosts)

    def open(self) -> Encode:
        skip_unrecorded()
        return lambda texts: recording.call_unrecorded(
            Context(), self.inner.get_text_embedding_batch, texts
        )
