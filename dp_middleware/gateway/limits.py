"""What a client or a request may take: size, time, rate, and requests at once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.settings import Limits

_MINUTE = 60.0
_DEEPEST = 50  # arrays and objects in each other


class Gate:
    """Counts requests of one worker.

    Args:
        limits: As configured.
        clock: Seconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._inside = 0
        self._tokens: dict[str, tuple[float, float]] = {}  # what is left, and when

    @asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Held while a request is answered.

        Raises:
            Failure: Too many at once.
        """
        if self._inside >= self._limits.concurrent:
            raise Failure(429, "too many requests at once", "rate_limit_exceeded", kind="requests")
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def count(self, client: str) -> None:
        """One more request of a client: a bucket that fills evenly, up to a minute's requests.

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
        """A request's JSON object.

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
    """Parsed, without a trace of what it holds if it cannot be."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse)
        if isinstance(value, dict) and _depth(value) <= _DEEPEST:
            return value
    except (ValueError, RecursionError):
        value = None
    raise Failure(400, "expected a JSON object in UTF-8, not nested deeply", "invalid_json")


def _refuse(_: str) -> Any:
    raise ValueError("not JSON")


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
