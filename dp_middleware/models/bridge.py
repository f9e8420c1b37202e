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
    """Run a coroutine to its end on the background loop, in the caller's context.

    An asynchronous client keeps its connections on the loop they were opened on, so all
    synchronous calls share one loop instead of opening a loop each.

    Raises:
        RuntimeError: Called on the background loop itself, which would wait for ever.
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
    """The items of an asynchronous generator, one by one; closes it at the end.

    An item of ``None`` ends the iteration.
    """
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
