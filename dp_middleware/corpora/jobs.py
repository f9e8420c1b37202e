"""A run on a file that may be continued: its folder, its report and its processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from threading import Thread
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from dp_middleware import _files
from dp_middleware.corpora.chunks import ChunkFolder, on_disk
from dp_middleware.corpora.columns import Columns
from dp_middleware.corpora.rows import Chunk, Pair, readable
from dp_middleware.errors import ParameterError, withheld
from dp_middleware.privacy.certificate import json_number

_NOTE, _LOCK = "job.json", "run.lock"


@dataclass(frozen=True, kw_only=True)
class Report:
    """Says what became of a file, in public numbers."""

    rows: int
    texts: int  # cells that are not null
    tokens: int = 0  # of these; 0 for a dry run, which draws nothing
    chunks: int
    resumed: int = 0  # chunks that an earlier run had released
    subjects: int  # that paid; 0 without a ledger
    epsilon: float  # nats charged for all texts, or that a ledger would be; of a dry run at most
    epsilon_per_subject: float  # nats charged to the subject that paid most
    replaced: dict[str, int] = field(default_factory=dict, hash=False)
    """Places with a pseudonym of a session, by kind."""
    unchanged: dict[str, int] = field(default_factory=dict, hash=False)
    """Of its texts that are not blank those without one, by column."""

    def to_dict(self) -> dict[str, Any]:
        """Makes it JSON-ready; an infinite number is the string ``"inf"``."""
        plain = asdict(self)
        return {k: json_number(v) if isinstance(v, float) else v for k, v in plain.items()}


def state(path: Path) -> tuple[int, int]:
    """Returns size and time of change, by which a file is known again."""
    with readable():
        status = path.stat()
    return status.st_size, status.st_mtime_ns


def folder_of(target: Path) -> Path:
    """Names the folder of a run, beside its target; refuses a finished run, a strange folder."""
    folder = target.with_name(f".{target.name}.parts")
    if target.exists() and not (folder / _NOTE).exists():
        raise ParameterError(
            "expected a target that is not there yet: another run charges every row again"
        )
    with on_disk():
        if not folder.is_symlink() and not folder.exists():
            return folder
        status = folder.lstat()
        names = {path.name for path in folder.glob("*") if path.suffix != _files.UNFINISHED}
    is_alone = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if not (S_ISDIR(status.st_mode) and is_alone and (_NOTE in names or not names - {_LOCK})):
        raise ParameterError(
            f"expected {folder.name} beside the target as a folder of a run of yours: it would be "
            "removed; move it, or name another target"
        )
    return folder


@contextmanager
def open_job(folder: Path, told: dict[str, str]) -> Iterator[ChunkFolder]:
    """Gives the chunks of this job, which no other run works at; after its end they go."""
    store, note = ChunkFolder(folder), folder / _NOTE
    alone = None
    with on_disk(), suppress(Timeout):  # which is an OSError
        alone = FileLock(folder / _LOCK, timeout=0, mode=0o600).acquire()
    if alone is None:
        raise ParameterError("expected one run for a target, another one is at work")
    with alone:
        with on_disk(), readable():
            if not note.exists():
                with _files.unfinished(note) as new:
                    new.write(json.dumps(told).encode())
            before = json.loads(note.read_text())
        other = [name for name in {**before, **told} if before.get(name) != told.get(name)]
        if other:
            raise ParameterError(
                f"expected the {' and '.join(other)} of the run that is to be continued; put it "
                f"back, or remove {folder.name} to begin anew, which charges every row again"
            )
        yield store
        with on_disk():
            note.unlink()
    shutil.rmtree(folder, ignore_errors=True)


_AHEAD = 2  # chunks that wait for each worker
_DIED = "A worker process died (out of memory?); run the same again, perhaps with fewer workers"
_here: list[tuple[ChunkFolder, Columns]] = []


def release_all(
    chunks: Iterable[tuple[str, Chunk]], store: ChunkFolder, releaser: Columns, workers: int
) -> Generator[Pair]:
    """Yields chunks, which come with their keys, with what is released and kept for each."""
    if workers == 1:
        for key, chunk in chunks:
            yield chunk, store.once(key, partial(releaser.release, chunk.cells))
        return
    waiting = deque[tuple[str, Chunk, "Future[Any] | None"]]()

    def first() -> Pair:
        key, chunk, work = waiting.popleft()
        found = None if work is None else work.result()
        return chunk, store.once(key, partial(releaser.release, chunk.cells, found=found))

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
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()
    _here.append((store, releaser))


def _work(key: str, rows: pa.Table, is_drawn: bool) -> Any:
    """Releases, or finds only: who has the mapping draws, so that no other process has its key."""
    store, releaser = _here[0]
    with withheld("expected releases, got {} in a worker; run with workers=1"):  # it is pickled
        if not is_drawn:
            return releaser.find(rows)
        store.once(key, partial(releaser.release, rows))
    return None
