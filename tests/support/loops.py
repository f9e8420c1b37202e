"""Event loops: connections of clients that several use, and work that must block none."""

import asyncio
from collections.abc import Coroutine
from queue import SimpleQueue
from threading import Event
from typing import Any, TypeVar

import httpx

T = TypeVar("T")


class PerLoop(httpx.AsyncBaseTransport):
    """A pool of connections for each event loop: a pool is not made for several threads."""

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = httpx.AsyncHTTPTransport(verify=False)
        return await self._pools[loop].handle_async_request(request)


class Blocking:
    """Work that blocks its thread until the event loop, in another thread, has gone on.

    Attributes:
        freed: How often that was.
    """

    def __init__(self) -> None:
        self.freed, self._waiting = 0, SimpleQueue[Event]()

    def __call__(self) -> None:
        """Fails where the event loop waits for this."""
        own = Event()
        self._waiting.put(own)
        assert own.wait(20), "the event loop is blocked"

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that calls this."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.sleep(0.005)
            while not self._waiting.empty():
                self._waiting.get().set()
                self.freed += 1
        return await task


def async_client(url: str) -> Any:
    """OpenAI's client for a server, whose connections are of the loop that asks."""
    import openai

    http = openai.DefaultAsyncHttpxClient(transport=PerLoop())
    key = "sk-testing-a1b2c3"
    return openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http)
