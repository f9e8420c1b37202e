"""A chunk of rows is charged and drawn once: what was released for it is kept under its key.

The order is lock, charge, draw, write, rename. A process that is killed before the rename leaves
nothing that anybody reads, so the chunk is charged and drawn again; after the rename it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from filelock import FileLock

from dp_middleware import _files
from dp_middleware.corpora.failures import on_disk

FORMAT = 1  # of keys and parts; part of every key


class RowReleaser(Protocol):
    """What releases the rows of a chunk, such as :class:`~dp_middleware.corpora.Columns`."""

    def release(self, rows: pa.Table) -> pa.Table:
        """Charge for the rows, then draw for them; what is returned is public."""


def chunk_key(job: str, *place: str | int) -> str:
    """Names a chunk, equal where job and place are.

    Args:
        job: What decides the releases, and which rows there are: a caller's own name of the job
            together with :attr:`Columns.fingerprint`, say.
        place: Which rows of the job: numbers of the first and last one, or ids. Public.
    """
    return hashlib.sha256(json.dumps([FORMAT, job, *place]).encode()).hexdigest()[:32]


class ChunkFolder:
    """Releases by the keys of their chunks, in a folder for its owner alone.

    Threads, processes and, on a file system with locks for all of them, machines may share it.

    Args:
        path: Is made if it is not there, in a folder that is.

    Raises:
        ParameterError: The folder cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with on_disk():
            self.path.mkdir(mode=0o700, exist_ok=True)

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def read(self, key: str) -> pa.Table | None:
        """What was released for a chunk; ``None``: nothing yet."""
        if key not in self:
            return None
        with on_disk(), pa.memory_map(str(self._path(key))) as source:
            return pa.ipc.open_file(source).read_all()

    def write(self, key: str, released: pa.Table) -> None:
        """Keep what was released for a chunk: all of it, or nothing."""
        with on_disk():
            with (
                _files.unfinished(self._path(key)) as file,
                pa.ipc.new_file(file, released.schema) as writer,
            ):
                writer.write_table(released)
            sync_folder(self.path)

    @contextmanager
    def claim(self, key: str) -> Iterator[None]:
        """Alone with a chunk; a killed owner's claim ends with it."""
        with on_disk():
            lock = FileLock(self.path / f"{key}.lock", mode=0o600)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @property
    def attempts(self) -> int:
        """How many charges were begun: chunks, and those charged again (or about to be)."""
        path = self.path / "attempts"
        return path.stat().st_size if path.exists() else 0

    def keep(self, key: str, release: Callable[[], pa.Table]) -> pa.Table:
        """Charge and draw, and write what was released; the caller has claimed the chunk.

        That a charge is about to begin is noted: it survives the process, not a loss of power.
        """
        with on_disk(), (self.path / "attempts").open("ab") as file:
            file.write(b".")
        released = release()
        self.write(key, released)
        return released

    def _path(self, key: str) -> Path:
        return self.path / f"{key}.arrow"


def release_chunk(store: ChunkFolder, key: str, rows: pa.Table, releaser: RowReleaser) -> pa.Table:
    """Releases a chunk, or reads what was released for it: then nothing is paid or drawn.

    Of callers that race for one key, one releases and the others wait and read.

    Guarantee:
        One key has one release, however often this is called and wherever a process is killed. It
        is charged once, and once more for each time that a process died, or a disk failed, between
        its charge and the rename of its file; :attr:`ChunkFolder.attempts` bounds these.

    Args:
        store: Keeps what was released.
        key: From :func:`chunk_key`.
        rows: Private; (n,) rows.
        releaser: Charges, then draws.

    Raises:
        ParameterError: The folder cannot be written or read. What was charged stays spent.
        DPMiddlewareError: From the releaser; nothing was kept.
    """
    released = store.read(key)
    if released is not None:
        return released
    with store.claim(key):
        released = store.read(key)  # the one before us may have written it
        if released is None:
            released = store.keep(key, lambda: releaser.release(rows))
    return released


def sync_folder(path: Path) -> None:
    """Make a rename in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
