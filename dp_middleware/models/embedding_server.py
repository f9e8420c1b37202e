"""Embedding models behind an OpenAI-compatible ``/v1/embeddings``: TEI, Infinity, vLLM, Ollama."""

from __future__ import annotations

import os
import ssl
import weakref
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import httpx

from dp_middleware import _validate
from dp_middleware.embedding.backends import Encode
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models._wires import host_of
from dp_middleware.models.trust import Location, require_trusted

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
        """Vectors in the order of the texts.

        Raises:
            EmbeddingError: The server refused, or answered with something else. Holds no text.
            httpx.TransportError: It cannot be reached.
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
