"""Synchronous use of asynchronous models: one background event loop per process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine, Generator
from functools import lru_cache
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")

_starting = Lock()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on the background loop, in the caller's context.

    An asynchronous client keeps its connections on the loop they were opened on, so all synchronous
    calls share one. RuntimeError: called on that loop itself, it would wait for ever.
    """
    with _starting:
        loop = _loop(os.getpid())
    if asyncio._get_running_loop() is loop:
        work.close()
        raise RuntimeError("expected a caller outside the background loop; use the async call")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(chunks: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yields the items of an asynchronous generator up to ``None``; closes it at the end."""
    try:
        while (chunk := run(_following(chunks))) is not None:
            yield chunk
    finally:
        run(chunks.aclose())


async def _following(chunks: AsyncGenerator[T, None]) -> T | None:
    return await anext(chunks, None)


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child has lost its parent's thread and starts anew."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=f"dp-middleware-{process}", daemon=True).start()
    return loop
