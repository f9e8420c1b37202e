"""Answers as server-sent events, while the upstream writes them and the client is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dp_middleware.errors import DPMiddlewareError
from dp_middleware.gateway.failures import Failure, failure_of
from dp_middleware.gateway.turns import Turn, in_thread

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


_LAST = 10.0  # seconds for the end of an answer

DONE = "data: [DONE]\n\n"


def sse(event: dict[str, Any], name: str = "") -> str:
    """A server-sent event with its data as JSON, and with its name if it has one."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n"


class Events(Protocol):
    """What a wire makes of the events of its upstream."""

    def feed(self, event: dict[str, Any]) -> Sequence[str]:
        """What the client is sent, as :func:`sse` spells it."""

    def complete(self) -> bool:
        """Whether the answer is whole."""

    def broken(self, failure: Failure) -> str:
        """The event that ends an answer which is not, in the wire's form."""

    def note(self, *, left: bool = False) -> None:
        """Tell the session what was said; if the client has left, without waiting."""


class EventStream(Response):
    """A streamed answer: all of it happens in one task, which ends when the client leaves.

    Args:
        turn: What was asked.
        path: Of the upstream.
        events: Makes the client's events.
        ends: The last one.
    """

    def __init__(self, turn: Turn, path: str, events: Events, ends: str = "") -> None:
        self.status_code, self.background = 200, None
        self.init_headers({**_HEADERS, **turn.headers})
        self._turn, self._path, self._events, self._ends = turn, path, events, ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it.

        Raises:
            Failure: The upstream did not begin; nothing was sent.
        """
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not writing.done():
                writing.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            raise error

    async def _write(self, send: Send) -> None:
        begun = noted = False
        upstream = self._turn.call.gateway.upstream
        try:
            async with upstream.stream(self._path, self._turn.body) as events:
                start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                await send(start)
                begun = True
                async for event in events:
                    for text in self._events.feed(event):
                        await _send(send, text)
            noted = True
            await in_thread(self._events.note)
            last = self._ends if self._events.complete() else self._events.broken(_BROKEN_OFF)
        except DPMiddlewareError as error:
            if not begun:
                raise
            last = self._events.broken(failure_of(error))
        finally:
            if begun and not noted:
                self._events.note(left=True)
        async with asyncio.timeout(_LAST):  # a client that reads nothing is not waited for
            if last:
                await _send(send, last)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


_BROKEN_OFF = Failure(502, "the upstream's answer broke off", "upstream_ended", kind="server_error")


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
