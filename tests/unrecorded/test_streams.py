"""Leaving a stream closes every generator that it iterates over, and no other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator

import pytest

from dp_middleware.unrecorded import streams


class Layers:
    """Three generators around each other, kept alive from outside as by a reference cycle."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.fails = False
        self.innermost = self.layer("innermost", iter("abc"))
        self.middle = self.layer("middle", self.innermost)
        self.outermost = self.layer("outermost", self.middle)

    def layer(self, name: str, inner: Iterator[str]) -> Generator[str, None, None]:
        try:
            for each in inner:  # noqa: UP028 - a loop does not close what it is over
                yield each
        finally:
            self.closed.append(name)
            if self.fails:
                raise ValueError(name)


def test_all_layers_are_closed_from_the_outside_in() -> None:
    layers = Layers()
    with streams.closing(layers.outermost):
        assert next(layers.outermost) == "a"
    assert layers.closed == ["outermost", "middle", "innermost"]


def test_a_layer_that_fails_does_not_keep_the_others_open() -> None:
    layers = Layers()
    next(layers.outermost)
    layers.fails = True
    with pytest.raises(ValueError, match="innermost"):
        streams.close(layers.outermost)
    assert layers.closed == ["outermost", "middle", "innermost"]


def test_what_was_read_to_its_end_or_never_begun_is_left_alone() -> None:
    read = Layers()
    assert list(read.outermost) == ["a", "b", "c"]
    streams.close(read.outermost)
    assert read.closed == ["innermost", "middle", "outermost"]
    layers = Layers()
    streams.close(layers.outermost)
    assert layers.closed == []


def test_a_generator_that_the_code_of_a_layer_only_knows_stays_open() -> None:
    other = (letter for letter in "xyz")

    def layer() -> Generator[str, None, None]:
        yield from "ab"
        yield next(other)

    pieces = layer()
    next(pieces)
    streams.close(pieces)
    assert next(other) == "x"


@pytest.mark.asyncio
async def test_an_iterator_without_an_end_of_its_own() -> None:
    pieces = iter("ab")
    with streams.closing(pieces):
        assert next(pieces) == "a"

    class Letters:
        def __aiter__(self) -> Letters:
            return self

        async def __anext__(self) -> str:
            return "a"

    async with streams.aclosing(Letters()):
        pass
    assert next(pieces) == "b"


@pytest.mark.asyncio
async def test_asynchronous_layers() -> None:
    closed: list[str] = []

    async def innermost() -> AsyncGenerator[str, None]:
        try:
            yield "a"
        finally:
            closed.append("innermost")

    kept = innermost()

    async def outermost() -> AsyncGenerator[str, None]:
        try:
            async for each in kept:
                yield each
        finally:
            closed.append("outermost")

    pieces = outermost()
    async with streams.aclosing(pieces):
        assert await anext(pieces) == "a"
    assert closed == ["outermost", "innermost"]
