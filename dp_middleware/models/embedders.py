"""Embedding models of frameworks behind the shared service, by what they can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import Encode, Given
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models.adapters.llama_index import silent_manager
from dp_middleware.models.embedding_server import EmbeddingServer
from dp_middleware.models.parts import fields_of, inherits, inner_models, walk
from dp_middleware.models.recorders import refuse_dispatched
from dp_middleware.models.redirects import stay
from dp_middleware.models.trust import Location, locate, require_trusted

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
        model = self._silent()
        stay(model)
        embed = getattr(model, self._embeds)

        def encode(texts: list[str]) -> ArrayLike:
            self._check()  # something may have been set since
            vectors: ArrayLike = embed(texts)
            return vectors

        return encode

    def _silent(self) -> Any:
        return self.inner

    def _check(self) -> None:
        if (fault := _cache_in(self.inner)) is not None:
            raise EmbeddingError(fault)


class _LangChain(_Framework):
    _embeds = "embed_documents"


class _LlamaIndex(_Framework):
    _embeds = "get_text_embedding_batch"

    def _silent(self) -> Any:
        return self.inner.model_copy(update={"callback_manager": silent_manager()})

    def _check(self) -> None:
        super()._check()
        try:
            refuse_dispatched()
        except ParameterError as error:
            raise EmbeddingError(str(error)) from None


def _refuse_cache(model: Any) -> None:
    if (fault := _cache_in(model)) is not None:
        raise ParameterError(fault)


def _cache_in(model: Any) -> str | None:
    """What is wrong if the model, or a model inside of it, keeps the texts that it gets."""
    for part in walk(model, inner_models):
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
