"""Embedding models of frameworks for the shared service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import Encode, Given
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models._wires import stay
from dp_middleware.models.adapters import silent_manager
from dp_middleware.models.parts import fields_of, inherits, inner_models, walk
from dp_middleware.models.recorders import refuse_dispatched
from dp_middleware.models.trust import Location, locate, require_trusted

_CACHING = ("langchain", "langchain_classic")  # packages that have had CacheBackedEmbeddings


def embedding_service(model: Any, *, trusted_hosts: Iterable[str] = ()) -> EmbeddingService:
    """Returns the service that all callers of this model share.

    Its calls leave no record: no callbacks, spans, traces or vendors' logs.

    Args:
        model: A LangChain ``Embeddings``, a LlamaIndex ``BaseEmbedding``, or what
            :meth:`EmbeddingService.of` takes. It sees raw text.
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
    if _is_langchain(model) or callable(getattr(model, "get_text_embedding_batch", None)):
        return EmbeddingService.of(_Framework(model, trusted_hosts))
    service = EmbeddingService.of(model)
    _refuse_cache(getattr(service.backend, "inner", service.backend))
    if not isinstance(service.backend, _Framework):  # which was checked
        require_trusted(locate(service.backend), trusted_hosts)
    return service


class _Framework(Given):
    """Equal to others around the same object, whoever is trusted: an object was checked or not."""

    def __init__(self, inner: Any, trusted_hosts: Iterable[str]) -> None:
        super().__init__(inner)
        _refuse_cache(inner)
        require_trusted(self, trusted_hosts)

    @property
    def location(self) -> Location:
        """Where the model runs."""
        return locate(self.inner)

    def open(self) -> Encode:
        is_langchain, model = _is_langchain(self.inner), self.inner
        if not is_langchain:
            model = model.model_copy(update={"callback_manager": silent_manager()})
        stay(model)
        embed = model.embed_documents if is_langchain else model.get_text_embedding_batch

        def encode(texts: list[str]) -> ArrayLike:
            try:  # something may have been set since
                _refuse_cache(self.inner)
                if not is_langchain:
                    refuse_dispatched()
            except ParameterError as error:
                raise EmbeddingError(str(error)) from None
            vectors: ArrayLike = embed(texts)
            return vectors

        return encode


def _is_langchain(model: Any) -> bool:
    return callable(getattr(model, "embed_documents", None))


def _refuse_cache(model: Any) -> None:
    for part in walk(model, inner_models):
        if dict(fields_of(part)).get("embeddings_cache") is not None:
            raise ParameterError(
                "expected a model without embeddings_cache, which keeps raw texts and their "
                f"vectors, got {type(part).__name__} with one; set it to None"
            )
        if any(inherits(part, package, "CacheBackedEmbeddings") for package in _CACHING):
            raise ParameterError(
                "expected a model without a cache, got CacheBackedEmbeddings, which keeps digests "
                "of raw texts and their vectors in a store; pass its underlying_embeddings"
            )
