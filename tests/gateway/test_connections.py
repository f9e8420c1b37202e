"""Connections to the upstream: as many as requests at once, used again, never by two at a time."""

import asyncio
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from dp_middleware.gateway import upstream as connections
from dp_middleware.gateway.upstream import Connections


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """None is given up because this machine stood still, not by httpx either."""
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=600.0)
    monkeypatch.setattr(connections, "_KEPT", 600.0)
    monkeypatch.setattr(connections, "_ONE", limits)


@asynccontextmanager
async def serving():
    """A server that says which connection a request came by; ``/hang`` never answers."""
    writers = []

    async def answer(reader, writer):
        writers.append(writer)
        number = str(len(writers)).encode()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(60 if b"/hang" in head else 0.02)
                last = b"connection: close\r\n" if b"/last" in head else b""
                size = b"content-length: %d\r\n" % len(number)
                writer.write(b"HTTP/1.1 200 OK\r\n" + last + size + b"\r\n" + number)
                if last:
                    break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    pool, url = Connections(), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def get(path="/", timeout=60.0):
        extensions = {"timeout": httpx.Timeout(timeout).as_dict()}
        return pool.answer(httpx.Request("GET", url + path, extensions=extensions))

    yield pool, get
    await pool.close()
    server.close()
    for writer in writers:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def number_of(asking):
    async with asking as answer:
        return int(await answer.aread())


async def used(get, count, path="/"):
    return sorted(await asyncio.gather(*(number_of(get(path)) for _ in range(count))))


@pytest.mark.asyncio
async def test_one_for_each_request_at_once():
    async with serving() as (_, get):
        for count in (1, 8, 3, 8):
            numbers = await used(get, count)
            assert len(set(numbers)) == count
            assert max(numbers) <= 8


@pytest.mark.asyncio
async def test_an_answer_that_is_being_read_keeps_its_connection():
    async with serving() as (_, get):
        async with get() as open_answer:
            assert await used(get, 1) == [2]
            assert await open_answer.aread() == b"1"
        assert await used(get, 2) == [1, 2]


@pytest.mark.asyncio
async def test_a_connection_that_ended_is_made_anew():
    async with serving() as (_, get):
        assert await used(get, 1, "/last") == [1]
        assert await used(get, 1) == [2]
        with pytest.raises(httpx.ReadTimeout):
            await number_of(get("/hang", 0.1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(number_of(get("/hang")), 0.1)
        assert (await used(get, 1))[0] > 2  # not one with an answer under way


@pytest.mark.asyncio
async def test_what_is_not_used_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "_KEPT", 0.0)
    async with serving() as (pool, get):
        assert await used(get, 4) == [1, 2, 3, 4]
        await asyncio.sleep(0.01)
        assert await used(get, 1) == [5]
        assert len(pool._idle) == 1
