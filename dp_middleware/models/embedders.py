"""Embedding models of frameworks for the shared service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import Encode, Given
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models.adapters import silent_manager, stay
from dp_middleware.models.parts import fields_of, inherits, inner_models, walk
from dp_middleware.models.recorders import refuse_dispatched
from dp_middleware.models.trust import locate, require_trusted

_CACHING = ("langchain", "langchain_classic")  # packages that have had CacheBackedEmbeddings


def embedding_service(model: Any, *, trusted_hosts: Iterable[str] = ()) -> EmbeddingService:
    """Returns the service that all callers of this model share.

    The model, which sees raw text, is a LangChain ``Embeddings``, a LlamaIndex ``BaseEmbedding``,
    or what :meth:`EmbeddingService.of` takes. Its calls leave no record.

    Raises:
        UntrustedHost: It runs elsewhere than on ``trusted_hosts``, or it is unknown where.
        ParameterError: None of these, or it, or a model that it is made of, keeps what it is given
            in a cache: ``embeddings_cache`` or a ``CacheBackedEmbeddings``.
    """
    of_llama_index = callable(getattr(model, "get_text_embedding_batch", None))
    is_framework = of_llama_index or _is_langchain(model)
    service = EmbeddingService.of(_Framework(model) if is_framework else model)
    _refuse_cache(getattr(service.backend, "inner", service.backend))
    require_trusted(locate(service.backend), trusted_hosts)
    return service


class _Framework(Given):
    """Embeds by a framework's model."""

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
