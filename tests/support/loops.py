"""Event loops: connections of clients that several use, and work that must block none."""

import asyncio
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

import httpx

T = TypeVar("T")


class PerLoop(httpx.AsyncBaseTransport):
    """A pool of connections for each event loop: a pool is not made for several threads."""

    def __init__(self):
        self._pools = {}

    async def handle_async_request(self, request):
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = httpx.AsyncHTTPTransport(verify=False)
        return await self._pools[loop].handle_async_request(request)


class Blocking:
    """Blocks its thread until the event loop, in another thread, has gone on, ``freed`` times."""

    def __init__(self):
        self.freed, self._waiting = 0, SimpleQueue[Event]()

    def __call__(self):
        """Fails where the event loop waits for this."""
        own = Event()
        self._waiting.put(own)
        assert own.wait(20), "the event loop is blocked"

    async def beside(self, work):
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.sleep(0.005)
            while not self._waiting.empty():
                self._waiting.get().set()
                self.freed += 1
        return await task


def async_client(url):
    """OpenAI's client for a server, whose connections are of the loop that asks."""
    import openai

    http = openai.DefaultAsyncHttpxClient(transport=PerLoop())
    key = "sk-testing-a1b2c3"
    return openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http)
