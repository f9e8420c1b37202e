"""Processes that release chunks: each opens what it draws from once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from threading import Thread

import pyarrow as pa

from dp_middleware.corpora.chunks import ChunkFolder, release_chunk
from dp_middleware.corpora.columns import Columns
from dp_middleware.errors import ParameterError, withheld

_AHEAD = 2  # chunks that wait for each worker
_DONE: Future[None] = Future()  # of what an earlier run has released
_DONE.set_result(None)
_here: list[tuple[ChunkFolder, Columns]] = []

Task = tuple[str, pa.Table]
"""A key and private rows."""


def release_all(
    tasks: Iterable[Task], store: ChunkFolder, releaser: Columns, workers: int
) -> Generator[pa.Table]:
    """Releases chunks; what was released and kept for each, in their order.

    Raises:
        ParameterError: A worker was killed; what was released is kept.
        DPMiddlewareError: From the releaser.
    """
    if workers == 1:
        for key, rows in tasks:
            yield release_chunk(store, key, rows, releaser)
        return
    waiting: deque[tuple[str, Future[None]]] = deque()
    failure = ""
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(pickle.dumps((store, releaser)),),
    )
    try:
        for key, rows in tasks:
            waiting.append((key, _DONE if key in store else pool.submit(_release, key, rows)))
            if len(waiting) > _AHEAD * workers:
                yield _kept(store, *waiting.popleft())
        while waiting:
            yield _kept(store, *waiting.popleft())
    except BrokenProcessPool:
        failure = "one died"
    finally:
        pool.shutdown(cancel_futures=True)
    if failure:
        raise ParameterError(
            "expected workers that live, one died (killed, or out of memory?); what was released "
            "is kept: run the same again, perhaps with fewer workers"
        )


def _kept(store: ChunkFolder, key: str, done: Future[None]) -> pa.Table:
    done.result()
    return store.read(key)


def _begin(pickled: bytes) -> None:
    """A worker ends with its parent, also where that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()
    _here.append(pickle.loads(pickled))


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _release(key: str, rows: pa.Table) -> None:
    store, releaser = _here[0]
    with withheld("expected releases, got {} in a worker; run with workers=1"):  # it is pickled
        release_chunk(store, key, rows, releaser)
