"""Connections to the upstream: what a request costs does not grow with their number."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable

import httpx

_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1)
_KEPT = 4.0  # seconds without a request: servers of uvicorn and Node hang up after 5


class Connections(httpx.AsyncBaseTransport):
    """A transport for each request at once, with one connection; the latest used is used next.

    A pool of httpx looks at all of its connections, for each of them, twice a request. No more
    than there are requests at once are open.
    """

    def __init__(self) -> None:
        self._context = httpx.create_ssl_context(trust_env=False)
        self._idle: deque[tuple[float, httpx.AsyncHTTPTransport]] = deque()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it; the connection is free again when the response is closed."""
        used = time.monotonic() - _KEPT
        while self._idle and self._idle[0][0] < used:
            await self._idle.popleft()[1].aclose()
        transport = self._idle.pop()[1] if self._idle else self._new()
        try:
            response = await transport.handle_async_request(request)
        except BaseException:
            self._free(transport)  # it has closed what failed
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Answer(response.stream, lambda: self._free(transport))
        return response

    async def aclose(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.popleft()[1].aclose()

    def _new(self) -> httpx.AsyncHTTPTransport:
        return httpx.AsyncHTTPTransport(verify=self._context, trust_env=False, limits=_ONE)

    def _free(self, transport: httpx.AsyncHTTPTransport) -> None:
        self._idle.append((time.monotonic(), transport))


class _Answer(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, free: Callable[[], None]) -> None:
        self._stream, self._free = stream, free
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                await self._stream.aclose()
            finally:
                self._free()
