"""A run on a file that may be continued: its folder, by what it is known again, and its report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from dp_middleware import _files
from dp_middleware.corpora.chunks import ChunkFolder
from dp_middleware.corpora.failures import on_disk, readable
from dp_middleware.errors import ParameterError
from dp_middleware.privacy.wording import json_number


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of a file, in public numbers.

    Attributes:
        rows: That are in the target.
        broken: That were left out of it, and copied to the file of rejects.
        texts: Cells that are not null.
        tokens: Of these; 0 for a dry run, which draws nothing.
        chunks: Number of chunks.
        resumed: Chunks that an earlier run had released.
        charged_again: At most so many chunks were charged more than once, as a run was killed
            between their charge and the writing of what was drawn.
        subjects: That paid; 0 without a ledger.
        epsilon: Nats of all texts; of a dry run, an upper bound.
        epsilon_per_subject: Of the subject that paid most.
    """

    rows: int
    broken: int
    texts: int
    tokens: int = 0
    chunks: int
    resumed: int = 0
    charged_again: int = 0
    subjects: int
    epsilon: float
    epsilon_per_subject: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; an infinite number is the string ``"inf"``."""
        plain = asdict(self)
        return {k: json_number(v) if isinstance(v, float) else v for k, v in plain.items()}


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
    """The chunks of this job, which no other run works at; done without an error, they go.

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
    gone = folder.with_name(f"{folder.name}.done")
    shutil.rmtree(gone, ignore_errors=True)
    with on_disk():
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
