"""Embedding models of frameworks behind the shared service, by what they can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import Encode, Given
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models.adapters.llama_index import skip_unrecorded
from dp_middleware.models.embedding_server import EmbeddingServer
from dp_middleware.models.parts import fields_of, inherits, models_in
from dp_middleware.models.trust import Location, locate, require_trusted
from dp_middleware.unrecorded import recording

_CACHING = ("langchain", "langchain_classic")  # packages that have had CacheBackedEmbeddings


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
        ParameterError: None of these, or it, or a model that it is made of, keeps what it is given
            in a cache: ``embeddings_cache`` or a ``CacheBackedEmbeddings``.

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
    _refuse_cache(getattr(service.backend, "inner", service.backend))
    if not isinstance(service.backend, EmbeddingServer | _Framework):  # these were checked
        require_trusted(locate(service.backend), trusted_hosts)
    return service


class _Framework(Given):
    """Equal to others around the same object, whoever is trusted: an object was checked or not."""

    _embeds: ClassVar[str]

    def __init__(self, inner: Any, trusted_hosts: Iterable[str]) -> None:
        super().__init__(inner)
        _refuse_cache(inner)
        require_trusted(self, trusted_hosts)

    @property
    def location(self) -> Location:
        """Where the model runs."""
        return locate(self.inner)

    def open(self) -> Encode:
        embed = getattr(self.inner, self._embeds)

        def encode(texts: list[str]) -> ArrayLike:
            if (fault := _cache_in(self.inner)) is not None:  # it may have been set since
                raise EmbeddingError(fault)
            vectors: ArrayLike = embed(texts)
            return vectors

        return encode


class _LangChain(_Framework):
    _embeds = "embed_documents"


class _LlamaIndex(_Framework):
    _embeds = "get_text_embedding_batch"

    def open(self) -> Encode:
        recording.watch(skip_unrecorded)
        return super().open()


def _refuse_cache(model: Any) -> None:
    if (fault := _cache_in(model)) is not None:
        raise ParameterError(fault)


def _cache_in(model: Any) -> str | None:
    """What is wrong if the model, or a model inside of it, keeps the texts that it gets."""
    for part in models_in(model):
        if dict(fields_of(part)).get("embeddings_cache") is not None:
            return (
                "expected a model without embeddings_cache, which keeps raw texts and their "
                f"vectors, got {type(part).__name__} with one; set it to None"
            )
        if any(inherits(part, package, "CacheBackedEmbeddings") for package in _CACHING):
            return (
                "expected a model without a cache, got CacheBackedEmbeddings, which keeps digests "
                "of raw texts and their vectors in a store; pass its underlying_embeddings"
            )
    return None
