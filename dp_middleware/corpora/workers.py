"""Processes that release chunks: each opens what it draws from once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

import pyarrow as pa

from dp_middleware.corpora.chunks import ChunkFolder, release_chunk
from dp_middleware.corpora.columns import Columns
from dp_middleware.errors import ParameterError, withheld

_AHEAD = 2  # chunks that wait for each worker
_DONE: Future[Any] = Future()  # of what an earlier run has released
_DONE.set_result(None)
_FAILED = "expected releases, got {} in a worker; run with workers=1"
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
    waiting: deque[tuple[str, pa.Table, Future[Any]]] = deque()
    failure, alone = "", replace(releaser, session=None)
    work = _release if releaser.session is None else _find
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(pickle.dumps((store, alone)),),
    )

    def kept(key: str, rows: pa.Table, done: Future[Any]) -> pa.Table:
        return release_chunk(store, key, rows, replace(releaser, found=done.result()))

    try:
        for key, rows in tasks:
            waiting.append((key, rows, _DONE if key in store else pool.submit(work, key, rows)))
            if len(waiting) > _AHEAD * workers:
                yield kept(*waiting.popleft())
        while waiting:
            yield kept(*waiting.popleft())
    except BrokenProcessPool:
        failure = "one died"
    finally:
        pool.shutdown(cancel_futures=True)
    if failure:
        raise ParameterError(
            "expected workers that live, one died (killed, or out of memory?); what was released "
            "is kept: run the same again, perhaps with fewer workers"
        )


def _begin(pickled: bytes) -> None:
    """A worker ends with its parent, also where that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()
    _here.append(pickle.loads(pickled))


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _find(_: str, rows: pa.Table) -> Any:
    """What is found; who has the mapping draws, so that no other process has its key."""
    with withheld(_FAILED):
        return _here[0][1].find(rows)


def _release(key: str, rows: pa.Table) -> None:
    store, releaser = _here[0]
    with withheld(_FAILED):  # it is pickled
        release_chunk(store, key, rows, releaser)
