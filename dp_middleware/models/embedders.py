"""Embedding models for the shared service: those of frameworks, and OpenAI-compatible servers."""

from __future__ import annotations

import os
import ssl
import weakref
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import httpx
from numpy.typing import ArrayLike

from dp_middleware import _validate
from dp_middleware.embedding import EmbeddingService
from dp_middleware.embedding.backends import Encode, Given
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models._wires import host_of, stay
from dp_middleware.models.adapters.llama_index import silent_manager
from dp_middleware.models.parts import fields_of, inherits, inner_models, walk
from dp_middleware.models.recorders import refuse_dispatched
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
    if _is_langchain(model) or callable(getattr(model, "get_text_embedding_batch", None)):
        return EmbeddingService.of(_Framework(model, trusted_hosts))
    service = EmbeddingService.of(model)
    _refuse_cache(getattr(service.backend, "inner", service.backend))
    if not isinstance(service.backend, EmbeddingServer | _Framework):  # these were checked
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
    """Refuses a model that keeps the texts that it gets, or has one inside that does."""
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


_BATCH = 32  # the default limit of TEI, the lowest of these servers
_CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@dataclass(frozen=True)
class EmbeddingServer:
    """A server that sees raw text: refused unless it is on loopback or on a trusted host.

    Called over one connection of its own: through no proxy, following no redirect, leaving no
    text in logs. Texts are sent as texts and vectors asked for as numbers, which all of these
    servers understand; vectors are put in order by their index.

    Attributes:
        url: With the version, such as ``http://localhost:8080/v1``.
        model: Its name there.
        api_key: Sent as a bearer token.
        batch: Most texts in one request: TEI takes 32 unless told otherwise, OpenAI's own 2,048.
        timeout: Seconds without a sign of the server.
        trusted_hosts: Host names, without scheme or port, that may see raw text.

    Raises:
        UntrustedHost: Raw text would leave this computer for a host that is not named.
        ParameterError: No http URL, or a parameter out of range.

    Example:
        >>> EmbeddingServer("http://localhost:8080/v1", "BAAI/bge-small-en-v1.5").batch
        32
    """

    url: str
    model: str
    _: KW_ONLY
    api_key: str | None = field(default=None, repr=False)
    batch: int = _BATCH
    timeout: float = 60.0
    trusted_hosts: Iterable[str] = ()
    _trust_env: ClassVar[bool] = False  # as httpx calls it: proxies of the environment are not used

    def __post_init__(self) -> None:
        _validate.at_least(1, batch=self.batch)
        _validate.positive(timeout=self.timeout)
        try:
            url = httpx.URL(self.url)
        except httpx.InvalidURL:
            url = httpx.URL()
        is_read_alike = self.location.hosts == {url.raw_host.decode()}  # by httpx and by us
        if url.scheme not in ("http", "https") or url.userinfo or not is_read_alike:
            raise ParameterError("expected url to be http(s)://HOST[:PORT]/v1, without a user")
        require_trusted(self, self.trusted_hosts)
        object.__setattr__(self, "trusted_hosts", frozenset(self.trusted_hosts))

    @property
    def location(self) -> Location:
        """Its host; the proxies of the environment are not used."""
        host = host_of(self.url)
        return Location(hosts=frozenset({host} if host else ()))

    def open(self) -> Encode:
        """A connection, made when it is first used."""
        return _Connection(self).encode


class _Connection:
    """Used by one thread; a forked child opens one of its own."""

    def __init__(self, server: EmbeddingServer) -> None:
        self._server = server
        self._open()

    def _open(self) -> None:
        key = self._server.api_key
        self._http = httpx.Client(
            base_url=self._server.url,
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=self._server.timeout,
            trust_env=self._server._trust_env,
            follow_redirects=False,
            verify=ssl.create_default_context(),  # the system's authorities, not only certifi's
        )
        self._process = os.getpid()
        weakref.finalize(self, self._http.close)

    def encode(self, texts: list[str]) -> list[list[float]]:
        """Returns vectors in the order of the texts.

        EmbeddingError, without a text: the server refused, or answered with something else.
        """
        if self._process != os.getpid():
            self._http.close()  # this process's descriptor only: the parent goes on with its own
            self._open()
        asked = {"model": self._server.model, "input": texts, "encoding_format": "float"}
        try:
            answer = self._http.post("embeddings", json=asked)
        except _CLOSED:  # the server had closed the connection since the last request
            answer = self._http.post("embeddings", json=asked)
        if answer.status_code != httpx.codes.OK:
            raise EmbeddingError(
                f"the embedding server answered with HTTP {answer.status_code} to {len(texts)} "
                "texts; it may take fewer at once (batch=), shorter ones, or another model or key"
            )
        return _in_order(answer, len(texts))


def _in_order(answer: httpx.Response, count: int) -> list[list[float]]:
    try:
        vectors = {row["index"]: row["embedding"] for row in answer.json()["data"]}
        return [vectors[k] for k in range(count)]
    except (ValueError, KeyError, TypeError, IndexError):
        pass  # the body may quote the texts
    raise EmbeddingError(f"expected {count} numbered vectors of the embedding server, got others")
