"""A run on a file that may be continued: its folder, and by what it is known again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from dp_middleware import _files
from dp_middleware.corpora.chunks import ChunkFolder
from dp_middleware.corpora.failures import on_disk, readable
from dp_middleware.errors import ParameterError


def refuse_done(target: Path, rejects: Path | None, folder: Path) -> None:
    """A finished run is not run again by mistake: that would be a second release of all rows."""
    if folder.exists():
        return
    for path in (target, rejects):
        if path is not None and path.exists():
            raise ParameterError(
                "expected a target, and a file of rejects, that are not there yet: another run "
                "releases and charges every row again; remove them, or name others"
            )


def state(path: Path) -> tuple[int, int]:
    """Size and time of change, by which a file is known again."""
    with readable():
        status = path.stat()
    return status.st_size, status.st_mtime_ns


@contextmanager
def open_job(folder: Path, told: dict[str, str]) -> Iterator[ChunkFolder]:
    """The chunks of this job, which no other run works at.

    Raises:
        ParameterError: Another run does, or the folder is of another job.
    """
    store = ChunkFolder(folder)
    lock = FileLock(folder / "run.lock", timeout=0, mode=0o600)
    with on_disk(), suppress(Timeout):  # which is an OSError
        lock.acquire()
    if not lock.is_locked:
        raise ParameterError("expected one run for a target, another one is at work")
    try:
        with on_disk():
            note = folder / "job.json"
            before = json.loads(note.read_text()) if note.exists() else told
            if not note.exists():
                with _files.unfinished(note) as new:
                    new.write(json.dumps(told).encode())
        other = [name for name in told if before.get(name) != told[name]]
        if other:
            raise ParameterError(
                f"expected the {' and '.join(other)} of the run that is to be continued, got "
                f"another; put it back, or remove {folder.name} beside the target to begin anew, "
                "which charges every row again"
            )
        yield store
    finally:
        lock.release()
