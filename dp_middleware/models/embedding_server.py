"""Embedding models behind an OpenAI-compatible ``/v1/embeddings``: TEI, Infinity, vLLM, Ollama."""

from __future__ import annotations

import http.client
import json
import os
import weakref
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from dp_middleware import _validate
from dp_middleware.embedding.backends import Encode
from dp_middleware.errors import EmbeddingError, ParameterError
from dp_middleware.models.trust import Location, locate, require_trusted

_BATCH = 32  # the default limit of TEI, the lowest of these servers


@dataclass(frozen=True)
class EmbeddingServer:
    """A server that sees raw text: refused unless it is on loopback or on a trusted host.

    Called over one connection of its own: through no proxy, following no redirect, leaving no
    record in logs. Texts are sent as texts and vectors asked for as numbers, which all of these
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
        if self._parts.scheme not in ("http", "https") or self._parts.username is not None:
            raise ParameterError("expected url to be http(s)://HOST[:PORT]/v1, without a user")
        require_trusted(self, self.trusted_hosts)
        object.__setattr__(self, "trusted_hosts", frozenset(self.trusted_hosts))

    @property
    def location(self) -> Location:
        """Its host; the proxies of the environment are not used."""
        return locate(SimpleNamespace(url=self.url, _trust_env=self._trust_env))

    def open(self) -> Encode:
        """A connection, made when it is first used."""
        return _Connection(self, self._parts).encode

    @property
    def _parts(self) -> SplitResult:
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018 - raises if it is none
        except ValueError:
            raise ParameterError("expected url to be http://HOST[:PORT]/v1, got another") from None
        return parts


class _Connection:
    """Used by one thread; a forked child opens one of its own."""

    def __init__(self, server: EmbeddingServer, parts: SplitResult) -> None:
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        self._server = server
        self._path = f"{parts.path.rstrip('/')}/embeddings"
        self._http = kinds[parts.scheme](parts.hostname or "", parts.port, timeout=server.timeout)
        self._process = os.getpid()
        weakref.finalize(self, self._http.close)

    def encode(self, texts: list[str]) -> list[list[float]]:
        """Vectors in the order of the texts."""
        if self._process != os.getpid():
            self._http.close()  # this process's descriptor only: the parent goes on with its own
            self._process = os.getpid()
        asked = {"model": self._server.model, "input": texts, "encoding_format": "float"}
        status, body = self._posted(json.dumps(asked).encode())
        if status != http.client.OK:
            raise EmbeddingError(
                f"the embedding server answered with HTTP {status} to {len(texts)} texts; it may "
                "take fewer at once (batch=), shorter ones, or another model or key"
            )
        return _in_order(body, len(texts))

    def _posted(self, body: bytes) -> tuple[int, bytes]:
        """A second try where the server had closed the connection since the last request."""
        try:
            return self._post(body)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self._http.close()
        return self._post(body)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if self._server.api_key is not None:
            headers["Authorization"] = f"Bearer {self._server.api_key}"
        try:
            self._http.request("POST", self._path, body, headers)
            response = self._http.getresponse()
            return response.status, response.read()
        except BaseException:
            self._http.close()  # half a request is no connection to go on with
            raise


def _in_order(body: bytes, count: int) -> list[list[float]]:
    try:
        data: list[dict[str, Any]] = json.loads(body)["data"]
        found = {each["index"]: each["embedding"] for each in data}
        return [found[k] for k in range(count)]
    except (ValueError, KeyError, TypeError, IndexError):
        pass  # the body may quote the texts
    raise EmbeddingError(f"expected {count} numbered vectors of the embedding server, got others")
