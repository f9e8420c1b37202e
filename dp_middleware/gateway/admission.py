"""Who may come in, by keys of which only keyed hashes are kept, and what one may take."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request

from dp_middleware.gateway.failures import Failure, not_json
from dp_middleware.gateway.settings import Client, Limits

_PREFIX: Final = "dpk-"
_LONGEST = 200  # characters of a key that are looked at
_MINUTE = 60.0
_DEEPEST = 50  # arrays and objects in each other


def new_key() -> str:
    """Makes a key for a client: 256 random bits, shown once and kept nowhere."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_of(secret: str, key: str) -> str:
    """Returns what the configuration holds of a key: HMAC-SHA256 under the secret, in hex.

    A key is as random as the secret, so guessing it is no easier with a fast hash.
    """
    return hmac.new(secret.encode(), b"client key " + key.encode(), "sha256").hexdigest()


class Clients:
    """The clients by their keys."""

    def __init__(self, secret: str, clients: Iterable[Client]) -> None:
        self._secret, self._clients = secret, tuple(clients)

    def asking(self, headers: Mapping[str, str]) -> Client | None:
        """Returns the client of a request: its key is OpenAI's, or LiteLLM's for its guardrails."""
        key = headers.get("x-api-key")
        return self.of(headers.get("authorization") or (key and f"Bearer {key}"))

    def of(self, authorization: str | None) -> Client | None:
        """Returns the client with the key in a header; compares in constant time, with all."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(key) <= _LONGEST:
            return None
        hashed, asking = hash_of(self._secret, key.strip()), None
        for client in self._clients:
            if hmac.compare_digest(client.key_hash, hashed):
                asking = client
        return asking


class Gate:
    """Counts requests of one worker, and limits them."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._inside = 0
        self._tokens: dict[str, tuple[float, float]] = {}  # what is left, and when

    def __enter__(self) -> None:
        """Lets in one more request, until it is answered.

        Raises:
            Failure: Too many at once.
        """
        if self._inside >= self._limits.concurrent:
            raise Failure(429, "too many requests at once", "rate_limit_exceeded", kind="requests")
        self._inside += 1

    def __exit__(self, *details: object) -> None:
        self._inside -= 1

    def count(self, client: str) -> None:
        """Counts a request of a client: a bucket fills evenly, up to a minute's requests.

        Raises:
            Failure: Too many in a minute.
        """
        most, now = float(self._limits.requests_per_minute), self._clock()
        left, then = self._tokens.get(client, (most, now))
        left = min(most, left + (now - then) * most / _MINUTE)
        self._tokens[client] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            wait = {"retry-after": str(int((1 - left) * _MINUTE / most) + 1)}
            message = "too many requests in a minute"
            raise Failure(429, message, "rate_limit_exceeded", kind="requests", headers=wait)

    async def body(self, request: Request) -> dict[str, Any]:
        """Reads a request's JSON object.

        Raises:
            Failure: Too large, too slow, or not a JSON object.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Failure(415, "expected content-type application/json", "invalid_content_type")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Failure(415, "expected a body without content-encoding", "invalid_encoding")
        most = self._limits.body_bytes
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or len(announced) > 20 or int(announced) > most:
            raise _too_large(most)
        data = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for piece in request.stream():
                    data += piece
                    if len(data) > most:
                        raise _too_large(most)
        except (TimeoutError, ClientDisconnect):
            data.clear()
            raise Failure(408, "the request's body took too long", "timeout") from None
        return _object(bytes(data))


def _too_large(most: int) -> Failure:
    return Failure(413, f"expected a body of at most {most} bytes", "too_large")


def _object(data: bytes) -> dict[str, Any]:
    """Parses a body; leaves no trace of what it holds if it cannot be parsed."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=not_json)
        if isinstance(value, dict) and not _is_deep(value):
            return value
    except (ValueError, RecursionError):
        value = None
    raise Failure(400, "expected a JSON object in UTF-8, not nested deeply", "invalid_json")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner = [(v.values() if isinstance(v, dict) else v) for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
        if not level:
            return False
    return True
