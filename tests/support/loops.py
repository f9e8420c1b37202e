"""Connections of clients that several event loops use."""

from __future__ import annotations

import asyncio

import httpx


class PerLoop(httpx.AsyncBaseTransport):
    """A pool of connections for each event loop: a pool is not made for several threads."""

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = httpx.AsyncHTTPTransport(verify=False)
        return await self._pools[loop].handle_async_request(request)
