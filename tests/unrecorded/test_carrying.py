"""What an unrecorded call returns runs unrecorded to its end, and is used as any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from dp_middleware.unrecorded import recording
from dp_middleware.unrecorded.carrying import carried, carry


def stream() -> Generator[Any, Any, str]:
    """Says of every step whether it is recorded, and what it was given."""
    given: Any = None
    try:
        while given != "end":
            try:
                given = yield recording.is_unrecorded(), given
            except KeyError as error:
                given = error
    finally:
        ENDED.append(recording.is_unrecorded())
    return "returned"


async def astream() -> AsyncGenerator[Any, Any]:
    given: Any = None
    try:
        while given != "end":
            try:
                given = yield recording.is_unrecorded(), given
            except KeyError as error:
                given = error
    finally:
        ENDED.append(recording.is_unrecorded())


ENDED: list[bool] = []


@pytest.fixture(autouse=True)
def none_ended() -> None:
    ENDED.clear()


def began(make: Callable[[], Any]) -> Any:
    with recording.unrecorded():
        return carried(make())


def test_what_is_sent_thrown_and_returned_passes() -> None:
    pieces, error = began(stream), KeyError()
    assert next(pieces) == (True, None)
    assert pieces.send("word") == (True, "word")
    assert pieces.throw(error) == (True, error)
    with pytest.raises(StopIteration, match="returned"):
        pieces.send("end")
    assert ENDED == [True]


def test_an_error_that_is_not_caught_and_leaving_end_the_stream() -> None:
    thrown, left = began(stream), began(stream)
    next(thrown)
    with pytest.raises(ZeroDivisionError):
        thrown.throw(ZeroDivisionError())
    next(left)
    left.close()
    assert ENDED == [True, True]


@pytest.mark.asyncio
async def test_what_is_sent_and_thrown_to_an_asynchronous_stream_passes() -> None:
    pieces, error = began(astream), KeyError()
    assert await anext(pieces) == (True, None)
    assert await pieces.asend("word") == (True, "word")
    assert await pieces.athrow(error) == (True, error)
    with pytest.raises(StopAsyncIteration):
        await pieces.asend("end")
    left = began(astream)
    await anext(left)
    await left.aclose()
    assert ENDED == [True, True]


class Slotted:
    __slots__ = ("pieces", "unset")

    def __init__(self) -> None:
        self.pieces = stream()


class Response(BaseModel):
    model_config = ConfigDict(extra="allow")
    words: int = 0
    _pieces: Any = PrivateAttr(default_factory=stream)


class Plain:
    def __init__(self) -> None:
        self.pieces = stream()


class Pair(NamedTuple):
    message: str
    pieces: Any


HOLDERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tuple": (lambda: ("message", stream()), lambda held: held[1]),
    "named tuple": (lambda: Pair("message", stream()), lambda held: held.pieces),
    "list": (lambda: ["message", stream()], lambda held: held[1]),
    "dict": (lambda: {"pieces": stream()}, lambda held: held["pieces"]),
    "response in a tuple": (lambda: ("message", Plain()), lambda held: held[1].pieces),
    "response in a dict": (lambda: {"response": Plain()}, lambda held: held["response"].pieces),
    "fields": (Plain, lambda held: held.pieces),
    "slots": (Slotted, lambda held: held.pieces),
    "private fields": (Response, lambda held: held._pieces),
    "extra fields": (lambda: Response(more=stream()), lambda held: held.more),
    "declared fields": (
        lambda: Response.model_construct(words=stream()),
        lambda held: held.words,
    ),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_streams_that_are_held(kind: str) -> None:
    make, pieces_of = HOLDERS[kind]
    held = began(make)
    assert type(held) is type(make())
    assert next(pieces_of(held)) == (True, None)


@pytest.mark.parametrize(
    "same", [("message", 1), [1], {"a": 1}, Plain, 1, "text", None, Pair("message", None)], ids=repr
)
def test_what_holds_no_stream_is_the_same(same: Any) -> None:
    assert began(lambda: same) is same


def test_what_methods_return_is_carried() -> None:
    class Answering:
        def stream_chat(self) -> Any:
            return "message", stream()

        async def achat(self) -> Any:
            return [stream()]

    carry(Answering)
    with recording.unrecorded():
        _, inside = Answering().stream_chat()
    _, outside = Answering().stream_chat()
    assert next(inside) == (True, None)
    assert next(outside) == (False, None)


@pytest.mark.asyncio
async def test_what_coroutines_return_is_carried() -> None:
    async def answer() -> Any:
        return "message", stream()

    _, pieces = await began(answer)
    assert next(pieces) == (True, None)


def outer(inner: Generator[Any, Any, Any]) -> Generator[Any, None, None]:
    """Fails where the one inside of it waits; the error's frame holds on to that."""
    for _ in inner:
        raise ConnectionError
        yield


async def aouter(inner: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, None]:
    async for _ in inner:
        raise ConnectionError
        yield


def test_what_an_error_leaves_waiting_is_closed_in_the_block() -> None:
    with pytest.raises(ConnectionError) as caught:
        next(began(lambda: outer(stream())))
    assert ENDED == [True]
    del caught

    async def read() -> None:
        await anext(began(lambda: aouter(astream())))

    with pytest.raises(ConnectionError):
        asyncio.run(read())
    assert ENDED == [True, True]


def passing(inner: Generator[Any, Any, Any]) -> Generator[Any, None, None]:
    yield from (piece for piece in inner)  # hands on no error


def test_what_is_thrown_closes_what_lies_below() -> None:
    pieces = began(lambda: passing(stream()))
    next(pieces)
    with pytest.raises(ConnectionError):
        pieces.throw(ConnectionError())
    assert ENDED == [True]


async def apassing(inner: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, None]:
    async for piece in inner:
        yield piece


def test_a_loop_that_ends_closes_a_stream_as_its_reader_would(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = []

    async def read() -> None:
        kept.append(began(lambda: apassing(apassing(astream()))))
        await anext(kept[0])

    asyncio.run(read())
    assert ENDED == [True]
    assert not caplog.records


class Transforming:
    def transform(self, pieces: Any) -> Any:
        return stream()

    def pieces(self) -> Iterator[Any]:
        return stream()


def test_plain_methods_that_return_streams_are_carried() -> None:
    carry(Transforming)
    with recording.unrecorded():
        streams = [Transforming().transform(()), Transforming().pieces()]
    assert [next(pieces)[0] for pieces in streams] == [True, True]
