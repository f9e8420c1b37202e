"""Streams that are left early: closed down to the connection, and not when garbage is collected."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from types import AsyncGeneratorType, GeneratorType
from typing import Any


def close(pieces: Iterator[Any]) -> None:
    """Close a generator and those that it iterates over, the outermost first.

    A generator that is closed drops the one that its ``for`` loop is over and does not close it.
    Vendors' streams are in reference cycles, so dropping one leaves its connection open, and its
    last steps to be made at some later time, wherever garbage is collected. An iterator that has no
    ``close`` is left as it is.
    """
    with ExitStack() as stack:
        for each in reversed(_layers(pieces, GeneratorType)):
            if hasattr(each, "close"):
                stack.callback(each.close)


async def aclose(pieces: AsyncIterator[Any]) -> None:
    """As :func:`close`, for asynchronous generators."""
    async with AsyncExitStack() as stack:
        for each in reversed(_layers(pieces, AsyncGeneratorType)):
            if hasattr(each, "aclose"):
                stack.push_async_callback(each.aclose)


@contextmanager
def closing(pieces: Iterator[Any]) -> Iterator[None]:
    """:func:`close` at the end of the block."""
    try:
        yield
    finally:
        close(pieces)


@asynccontextmanager
async def aclosing(pieces: AsyncIterator[Any]) -> AsyncIterator[None]:
    """:func:`aclose` at the end of the block."""
    try:
        yield
    finally:
        await aclose(pieces)


def _layers(outermost: Any, kind: type) -> list[Any]:
    """The generator, the one that its frame holds on to, and so on."""
    found = [outermost]
    for each in found:  # it grows
        if isinstance(each, kind):
            found += [x for x in gc.get_referents(each) if isinstance(x, kind) and x not in found]
    return found
