"""A chunk of rows is charged and drawn once: what was released for it is kept under its key.

The order is lock, seed, charge, draw, write, rename; after the rename the seed goes (``once.py``).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
from filelock import FileLock

from dp_middleware import _files
from dp_middleware.corpora.columns import Columns
from dp_middleware.corpora.once import Seed
from dp_middleware.errors import ParameterError, withheld

FORMAT = 1  # of keys and parts; part of every key
_SEED = 32  # bytes


def on_disk() -> AbstractContextManager[None]:
    """Withholds an error of writing or reading released text."""
    return withheld(
        "expected room and files that can be written and read for the chunks, got: {}; what was "
        "released is kept; mend this and run the same again",
        *(OSError, pa.ArrowInvalid),
    )


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
            self._seed(key).unlink(missing_ok=True)  # of a process that was killed just here
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
            self._seed(key).unlink(missing_ok=True)

    @contextmanager
    def claim(self, key: str) -> Iterator[None]:
        """Alone with a chunk; a killed owner's claim ends with it."""
        with on_disk():
            claimed = FileLock(self.path / f"{key}.lock", mode=0o600).acquire()
        with claimed:
            yield

    def seed(self, key: str) -> bytes:
        """32 random bytes of a claimed chunk, durable and private; the same until it is kept."""
        path = self._seed(key)
        with on_disk():
            if not path.exists():
                with _files.unfinished(path, mode=0o600) as file:
                    file.write(secrets.token_bytes(_SEED))
            sync_folder(self.path)
            seed, is_open = path.read_bytes(), path.stat().st_mode & 0o077
        if len(seed) != _SEED or is_open:
            raise ParameterError(
                f"expected {path.name} as it was written, for its owner alone; remove it: its "
                "chunk is then charged and drawn anew"
            )
        return seed

    def keep(self, key: str, release: Callable[[Seed], pa.Table]) -> pa.Table:
        """Charge and draw, and write what was released; the caller has claimed the chunk."""
        self.write(key, released := release(partial(self.seed, key)))
        return released

    def _seed(self, key: str) -> Path:
        return self.path / f"{key}.seed"

    def _path(self, key: str) -> Path:
        return self.path / f"{key}.arrow"


def release_chunk(store: ChunkFolder, key: str, rows: pa.Table, releaser: Columns) -> pa.Table:
    """Releases a chunk, or reads what was released for it: then nothing is paid or drawn.

    Of callers that race for one key, one releases and the others wait and read.

    Guarantee:
        One key has one release, however often this is called and wherever a process is killed. A
        ``dp.PrivacyLedger`` is charged once for it; once more only where its seed was lost between
        the charge and the rename, or rows, options or this library are no longer the same.

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
            released = store.keep(key, partial(releaser.release, rows))
    return released


def sync_folder(path: Path) -> None:
    """Make a rename in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
