"""The upstream: it is sent public text only, and what it says of its errors is not passed on."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import httpx

from dp_middleware.gateway.failures import Failure
from dp_middleware.gateway.measures import Measures
from dp_middleware.gateway.settings import ANTHROPIC, Settings

_PASSED = {400, 404, 408, 409, 413, 422, 429}  # statuses that a client can do something about
_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1)
_KEPT = 4.0  # seconds without a request: servers of uvicorn and Node hang up after 5
_PLAIN = {
    "accept": "*/*",
    "accept-encoding": "identity",  # a compressed answer has no size before it is unpacked
    "user-agent": "dp-middleware",
}
_url = lru_cache(maxsize=64)(httpx.URL)


class Connections:
    """A transport for each request at once, with one connection; the latest used is used next.

    A pool of httpx looks at all of its connections, for each of them, twice a request.
    """

    def __init__(self) -> None:
        self._context = httpx.create_ssl_context(trust_env=False)
        self._idle: deque[tuple[float, httpx.AsyncHTTPTransport]] = deque()

    @asynccontextmanager
    async def answer(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        """Sends a request; its connection is free again at the end of the block."""
        await self.close(time.monotonic() - _KEPT)
        options: Any = {"verify": self._context, "trust_env": False, "limits": _ONE}
        idle = self._idle
        transport = idle.pop()[1] if idle else httpx.AsyncHTTPTransport(**options)
        try:
            response = await transport.handle_async_request(request)
            try:
                yield response
            finally:
                await response.aclose()
        finally:  # it has closed what failed
            self._idle.append((time.monotonic(), transport))

    async def close(self, used: float = math.inf) -> None:
        """Closes what is idle and was last used before a time."""
        while self._idle and self._idle[0][0] < used:
            await self._idle.popleft()[1].aclose()


class Upstream:
    """A client of the upstream: no redirects, no cookies, nothing of the environment."""

    def __init__(self, settings: Settings, measures: Measures) -> None:
        self._settings, self._terms, self._measures = settings, settings.upstream, measures
        self._http = Connections()
        self._limits = {"timeout": httpx.Timeout(self._terms.seconds).as_dict()}
        self._heads, self._dialect = dict(_PLAIN), {"anthropic-version": "2023-06-01"}
        if key := settings.upstream_key.get_secret_value():
            self._heads["authorization"] = f"Bearer {key}"
            self._dialect["x-api-key"] = key  # beside the other form: some servers speak both

    async def close(self) -> None:
        """Closes connections."""
        await self._http.close()

    async def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the whole answer to a public body: a JSON object; or raises :class:`Failure`."""
        data = bytearray()
        async with self._answer(path, body) as response:
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > self._terms.max_bytes:
                    raise self._failed("too_long")
        answer = parsed(bytes(data))
        if answer is None:
            raise self._failed("garbage")
        self._measures.upstream.labels("200").inc()
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, body: dict[str, Any]
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Gives the events of a streamed answer, as JSON objects, until ``[DONE]`` or the end."""
        async with self._answer(path, body) as response:
            if "text/event-stream" not in response.headers.get("content-type", ""):
                raise self._failed("garbage")
            yield self._events(response)

    async def _events(self, response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
        outcome = "ended"
        async for line in self._lines(response):
            if not line.startswith("data:"):
                continue
            data = line[5:].strip()
            if data == "[DONE]":
                outcome = "200"
                break
            event = parsed(data.encode())
            if event is None or event.get("error"):
                raise self._failed("garbage")
            yield event
        self._measures.upstream.labels(outcome).inc()

    async def _lines(self, response: httpx.Response) -> AsyncIterator[str]:
        """The lines of a stream; a byte is looked at once, however small the pieces are."""
        size, begun = 0, bytearray()
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > self._terms.max_bytes:
                raise self._failed("too_long")
            *ends, last = piece.split(b"\n")
            for end in ends:
                begun += end
                yield begun.rstrip(b"\r").decode("utf-8", "replace")
                begun.clear()
            begun += last
        if begun:
            yield begun.decode("utf-8", "replace")

    @asynccontextmanager
    async def _answer(self, path: str, body: dict[str, Any]) -> AsyncIterator[httpx.Response]:
        """A response with status 200, within the limit of time for all."""
        try:
            async with (
                asyncio.timeout(self._settings.limits.seconds),
                self._http.answer(self._request(path, body)) as response,
            ):
                if response.status_code != 200:
                    raise self._refused(response)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise self._failed("garbage")
                yield response
            return
        except _BROKEN as error:  # which may tell the address, and more
            is_late = isinstance(error, TimeoutError | httpx.TimeoutException)
        raise self._failed("timeout" if is_late else "unreachable")

    def _request(self, path: str, body: dict[str, Any]) -> httpx.Request:
        url = _url(self._terms.url.rstrip("/") + path)
        heads = {**self._heads, **(self._dialect if path.startswith(ANTHROPIC) else {})}
        request = httpx.Request("POST", url, json=body, headers=heads, extensions=self._limits)
        if url.userinfo:
            next(httpx.BasicAuth(url.username, url.password).auth_flow(request))
        return request

    def _refused(self, response: httpx.Response) -> Failure:
        status = response.status_code
        self._measures.upstream.labels(str(status)).inc()
        passed = status if status in _PASSED else 502
        wait = response.headers.get("retry-after", "")
        headers = {"retry-after": wait} if wait.isdecimal() and len(wait) < 6 else {}
        kind = "invalid_request_error" if passed < 500 else "server_error"
        message = f"the upstream answered with status {status}; its words are withheld"
        return Failure(passed, message, "upstream_error", kind=kind, headers=headers)

    def _failed(self, outcome: str) -> Failure:
        self._measures.upstream.labels(outcome).inc()
        status = 504 if outcome == "timeout" else 502
        url = _url(self._terms.url).copy_with(userinfo=None, query=None, fragment=None)
        message = _SAID[outcome].format(url=url)
        return Failure(status, message, f"upstream_{outcome}", kind="server_error")


_BROKEN = (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
_SAID = {
    "timeout": "the upstream did not answer in time; what was charged stays spent",
    "unreachable": "the upstream {url} could not be reached or closed the connection; start it, or "
    "name another in the gateway's settings: url, in [upstream]",
    "garbage": "the upstream answered with something else than this protocol",
    "too_long": "the upstream's answer is longer than max_bytes",
}


def sse(event: dict[str, Any], named: bool = False) -> bytes:
    """Spells a server-sent event with its data as JSON, and with its name if it has one."""
    head = f"event: {event['type']}\n" if named else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def parsed(data: bytes, deepest: int = 0) -> dict[str, Any] | None:
    """Returns a JSON object that can be spelled again, nested so deep (0: any), or ``None``."""
    try:
        value = json.loads(data.decode(), parse_constant=_refuse, parse_float=_finite)
        if b"\\ud" in data.lower():  # maybe half of a pair
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    level: list[Any] = [value] if deepest else []
    for _ in range(deepest):
        inner = [(v.values() if isinstance(v, dict) else v) for v in level]
        level = [v for values in inner for v in values if isinstance(v, dict | list)]
    return None if level else value


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


def _refuse(_: str) -> Any:
    raise ValueError
