"""Processes that release chunks: each opens what it draws from once."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from threading import Thread
from typing import Any

import pyarrow as pa

from dp_middleware.corpora.chunks import ChunkFolder, release_chunk
from dp_middleware.corpora.columns import Columns
from dp_middleware.corpora.rows import Chunk
from dp_middleware.errors import withheld

_AHEAD = 2  # chunks that wait for each worker
_DIED = (
    "A worker process died (killed, or out of memory?); what was released is kept: run the same "
    "again, perhaps with fewer workers"
)
_here: list[tuple[ChunkFolder, Columns]] = []


def release_all(
    chunks: Iterable[tuple[str, Chunk]], store: ChunkFolder, releaser: Columns, workers: int
) -> Generator[tuple[Chunk, pa.Table]]:
    """Yields chunks, which come with their keys, with what is released and kept for each.

    Raises:
        ParameterError: A worker was killed; what was released is kept.
        DPMiddlewareError: From the releaser.
    """
    if workers == 1:
        for key, chunk in chunks:
            yield chunk, release_chunk(store, key, chunk.cells, releaser)
        return
    waiting = deque[tuple[str, Chunk, "Future[Any] | None"]]()

    def first() -> tuple[Chunk, pa.Table]:
        key, chunk, work = waiting.popleft()
        found = None if work is None else work.result()
        return chunk, release_chunk(store, key, chunk.cells, replace(releaser, found=found))

    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(store, replace(releaser, session=None)),
    )
    try:
        with withheld(_DIED, BrokenProcessPool):
            for key, chunk in chunks:
                work = (key, chunk.cells, releaser.session is None)
                waiting.append((key, chunk, None if key in store else pool.submit(_work, *work)))
                if len(waiting) > _AHEAD * workers:
                    yield first()
            while waiting:
                yield first()
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(store: ChunkFolder, releaser: Columns) -> None:
    """A worker ends with its parent, also where that was killed."""
    Thread(target=_end_with_parent, daemon=True).start()
    _here.append((store, releaser))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(key: str, rows: pa.Table, is_drawn: bool) -> Any:
    """Releases, or finds only: who has the mapping draws, so that no other process has its key."""
    store, releaser = _here[0]
    with withheld("expected releases, got {} in a worker; run with workers=1"):  # it is pickled
        if not is_drawn:
            return releaser.find(rows)
        release_chunk(store, key, rows, releaser)
    return None
