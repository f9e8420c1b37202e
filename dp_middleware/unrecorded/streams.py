"""Close a stream that is left early, down to its connection, before garbage is collected."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from traceback import walk_tb
from types import AsyncGeneratorType, GeneratorType
from typing import Any


def close(pieces: Iterator[Any]) -> None:
    """Close a generator and those that it iterates over, the outermost first.

    A generator that is closed drops the one that its ``for`` loop is over, and does not close it.
    Vendors' streams are in reference cycles: one that is dropped keeps its connection open, and
    takes its last steps later, wherever garbage is collected. An iterator without ``close`` is left
    as it is.
    """
    close_all(layers(pieces))


def close_all(generators: Iterable[Any]) -> None:
    """Close all of them in order, even if one raises."""
    with ExitStack() as stack:
        for generator in reversed([*generators]):
            if hasattr(generator, "close"):
                stack.callback(generator.close)


async def aclose(pieces: AsyncIterator[Any]) -> None:
    """As :func:`close`, for asynchronous generators."""
    await aclose_all(layers(pieces))


async def aclose_all(generators: Iterable[Any]) -> None:
    """As :func:`close_all`, for asynchronous generators."""
    async with AsyncExitStack() as stack:
        for generator in reversed([*generators]):
            if hasattr(generator, "aclose"):
                stack.push_async_callback(generator.aclose)
            elif isinstance(generator, GeneratorType):
                stack.callback(generator.close)


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


def layers(outermost: Any) -> list[Any]:
    """The generator, those of its kind that its frame refers to, and so on."""
    kind = AsyncGeneratorType if isinstance(outermost, AsyncGeneratorType) else GeneratorType
    stack = [outermost]
    for layer in stack:  # it grows
        if isinstance(layer, kind):
            stack += [x for x in gc.get_referents(layer) if isinstance(x, kind) and x not in stack]
    return stack


def left_by(error: BaseException, before: list[Any]) -> list[Any]:
    """Generators that an error leaves waiting for ever, among those of before and in its frames.

    Frames live as long as the error does, and what they hold would be closed after it, anywhere.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    values = [value for frame in frames for value in frame.f_locals.values()]
    waiting = {id(x): x for x in (*before, *values) if _waits(x)}
    return list(waiting.values())


def _waits(x: Any) -> bool:
    is_generator, is_async = isinstance(x, GeneratorType), isinstance(x, AsyncGeneratorType)
    return (is_generator and not x.gi_running) or (is_async and not x.ag_running)
