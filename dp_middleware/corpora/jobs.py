"""A run on a file that may be continued: its folder, by what it is known again, and its report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from filelock import FileLock, Timeout

from dp_middleware import _files
from dp_middleware.corpora.chunks import ChunkFolder
from dp_middleware.corpora.failures import on_disk, readable
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.certificate import json_number

_NOTE, _LOCK = "job.json", "run.lock"


@dataclass(frozen=True, kw_only=True)
class Report:
    """Says what became of a file, in public numbers.

    Attributes:
        rows: That are in the target.
        texts: Cells that are not null.
        tokens: Of these; 0 for a dry run, which draws nothing.
        chunks: Number of chunks.
        resumed: Chunks that an earlier run had released.
        subjects: That paid; 0 without a ledger.
        epsilon: Nats charged for all texts, or that a ledger would be; of a dry run, at most.
        epsilon_per_subject: Nats charged to the subject that paid most.
        replaced: Places with a pseudonym of a session, by kind.
        unchanged: Of its texts that are not blank those without one, by column.
    """

    rows: int
    texts: int
    tokens: int = 0
    chunks: int
    resumed: int = 0
    subjects: int
    epsilon: float
    epsilon_per_subject: float
    replaced: dict[str, int] = field(default_factory=dict, hash=False)
    unchanged: dict[str, int] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Makes it JSON-ready; an infinite number is the string ``"inf"``."""
        plain = asdict(self)
        return {k: json_number(v) if isinstance(v, float) else v for k, v in plain.items()}


def refuse_done(target: Path, folder: Path) -> None:
    """Refuses a finished run: run again by mistake, it would release all rows a second time."""
    if not folder.exists() and target.exists():
        raise ParameterError(
            "expected a target that is not there yet: another run releases and charges every row "
            "again; remove it, or name another"
        )


def state(path: Path) -> tuple[int, int]:
    """Size and time of change, by which a file is known again."""
    with readable():
        status = path.stat()
    return status.st_size, status.st_mtime_ns


def _refuse_foreign(folder: Path) -> None:
    """Raises where a folder is not one of a run: it is read, and removed at the end."""
    with on_disk():
        if not folder.is_symlink() and not folder.exists():
            return
        status = folder.lstat()
        names = {path.name for path in folder.glob("*") if path.suffix != _files.UNFINISHED}
    is_ours = S_ISDIR(status.st_mode) and (_NOTE in names or not names - {_LOCK})
    if hasattr(os, "geteuid"):
        is_ours &= status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if not is_ours:
        raise ParameterError(
            f"expected {folder.name} beside the target as a folder of a run of yours, got "
            "something else, which a run would remove; move it, or name another target"
        )


def _noted(note: Path) -> dict[str, Any]:
    try:
        noted = json.loads(note.read_text())
    except ValueError:
        noted = None
    return noted if isinstance(noted, dict) else {}


@contextmanager
def open_job(folder: Path, told: dict[str, str]) -> Iterator[ChunkFolder]:
    """The chunks of this job, which no other run works at; done without an error, they go.

    Raises:
        ParameterError: Another run does, or the folder is of another job, or of no job.
    """
    gone = folder.with_name(f"{folder.name}.done")
    for place in (folder, gone):
        _refuse_foreign(place)
    store = ChunkFolder(folder)
    lock = FileLock(folder / _LOCK, timeout=0, mode=0o600)
    with on_disk(), suppress(Timeout):  # which is an OSError
        lock.acquire()
    if not lock.is_locked:
        raise ParameterError("expected one run for a target, another one is at work")
    try:
        with on_disk():
            note = folder / _NOTE
            before = told if not note.exists() else _noted(note)
            if not note.exists():
                with _files.unfinished(note) as new:
                    new.write(json.dumps(told).encode())
        other = [name for name in {**before, **told} if before.get(name) != told.get(name)]
        if other:
            raise ParameterError(
                f"expected the {' and '.join(other)} of the run that is to be continued, got "
                f"another; put it back, or remove {folder.name} beside the target to begin anew, "
                "which charges every row again"
            )
        yield store
    finally:
        lock.release()
    shutil.rmtree(gone, ignore_errors=True)
    with on_disk():
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
