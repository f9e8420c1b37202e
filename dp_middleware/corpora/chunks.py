"""A chunk of rows is charged and drawn once: what was released for it is kept under its key.

The order is lock, seed, charge, draw, write, rename; after the rename the seed goes. From it, 32
random bytes, the rows and all that decides their release follow the names under which a ledger is
charged and the bytes that the draw is made of: who comes back after a crash finds its charges paid
and makes the same draw (docs/corpora.md: what follows where something differs).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
from filelock import FileLock

from dp_middleware import __version__, _files
from dp_middleware.errors import ParameterError, withheld
from dp_middleware.privacy import Certificate
from dp_middleware.privacy.ledger.ledger import PrivacyLedger
from dp_middleware.pseudonyms.pseudonyms import Pseudonyms
from dp_middleware.sampling.entropy import expanded
from dp_middleware.sanitizers.sanitizer import Sanitizer

R = TypeVar("R", bound=Sanitizer | Pseudonyms)

Seed = Callable[[], bytes]
"""Has 32 secret random bytes of a chunk kept until its release is, and returns them."""

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
    """Names the rows in these places, public ones, of a job, which decides their release."""
    return hashlib.sha256(json.dumps([FORMAT, job, *place]).encode()).hexdigest()[:32]


class ChunkFolder:
    """Keeps releases by the keys of their chunks, in a folder for its owner alone.

    Threads, processes and, on a file system with locks for all of them, machines may share it.
    Raises ``ParameterError`` where the folder or a file cannot be made, written or read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with on_disk():
            self.path.mkdir(mode=0o700, exist_ok=True)

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def once(self, key: str, release: Callable[[Seed], pa.Table]) -> pa.Table:
        """Returns what was released for a chunk; where nothing was, charges, draws and keeps it.

        Of those who come at once one releases; a killed one's lock ends with it.

        Guarantee:
            One key has one release, however often this is called and wherever a process is killed.
            A ``dp.PrivacyLedger`` is charged once for it; once more only where its seed was lost
            between the charge and the rename, or rows, options or this library are others.
        """
        released = self.read(key)
        if released is None:
            with on_disk():
                lock = FileLock(self._path(key, "lock"), mode=0o600).acquire()
            with lock:
                released = self.read(key)  # the one before us may have written it
                if released is None:
                    self.write(key, released := release(partial(self.seed, key)))
        return released

    def read(self, key: str) -> pa.Table | None:
        """Returns what was released for a chunk; ``None``: nothing yet."""
        if key not in self:
            return None
        with on_disk(), pa.memory_map(str(self._path(key))) as source:
            self._path(key, "seed").unlink(missing_ok=True)  # of a process that was killed here
            return pa.ipc.open_file(source).read_all()

    def write(self, key: str, released: pa.Table) -> None:
        """Keeps what was released for a chunk: all of it, or nothing."""
        path, schema = self._path(key), released.schema
        with on_disk():
            with _files.unfinished(path) as file, pa.ipc.new_file(file, schema) as writer:
                writer.write_table(released)
            sync_folder(self.path)
            self._path(key, "seed").unlink(missing_ok=True)

    def seed(self, key: str) -> bytes:
        """Returns 32 random bytes of a locked chunk, durable and private; the same until kept."""
        path = self._path(key, "seed")
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

    def _path(self, key: str, suffix: str = "arrow") -> Path:
        return self.path / f"{key}.{suffix}"


def sync_folder(path: Path) -> None:
    """Makes a rename in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def named_by(releaser: R, seed: Seed | None, told: Any) -> R:
    """Returns what releases the rows of a chunk, once; without a seed or our ledger, as it is.

    Its charges have names: by what they are for, and equal ones by their number. The draw has the
    law of its certificate where SHAKE-256 of a secret seed cannot be told from random bytes.
    ``told`` is JSON of the rows and of all that decides their release: private.
    """
    ledger = releaser.ledger
    if seed is None or not isinstance(ledger, PrivacyLedger):
        return releaser
    told = json.dumps([__version__, told]).encode()
    token = blake2b(told, key=seed(), digest_size=32).digest()
    equal = Counter[str]()

    def charge(subject: str, certificate: Certificate, n: int) -> object:
        bill = json.dumps([subject, certificate.fingerprint, n])
        equal[bill] += 1
        told = f"{equal[bill]} {bill}".encode()
        name = blake2b(told, key=token, digest_size=16, person=b"charge").hexdigest()
        return ledger.charge(subject, certificate, n, release=name)

    twin, named = copy.copy(releaser), SimpleNamespace(charge=charge)
    twin.ledger, twin.entropy = named, expanded(token)
    if isinstance(twin, Pseudonyms) and twin.sanitizer is not None:
        twin.sanitizer = copy.copy(twin.sanitizer)
        twin.sanitizer.entropy = twin.entropy
    return twin
