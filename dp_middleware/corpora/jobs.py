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
from dp_middleware.corpora.chunks import ChunkFolder, on_disk
from dp_middleware.corpora.rows import readable
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


def state(path: Path) -> tuple[int, int]:
    """Size and time of change, by which a file is known again."""
    with readable():
        status = path.stat()
    return status.st_size, status.st_mtime_ns


def folder_of(target: Path) -> Path:
    """Names the folder of a run, beside its target.

    Raises:
        ParameterError: The run is finished, and by mistake all rows would be released a second
            time; or what is there is no folder of a run: it would be read, and removed at the end.
    """
    folder = target.with_name(f".{target.name}.parts")
    if target.exists() and not (folder / _NOTE).exists():
        raise ParameterError(
            "expected a target that is not there yet: another run releases and charges every row "
            "again; remove it, or name another"
        )
    with on_disk():
        if not folder.is_symlink() and not folder.exists():
            return folder
        status = folder.lstat()
        names = {path.name for path in folder.glob("*") if path.suffix != _files.UNFINISHED}
    is_alone = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if not (S_ISDIR(status.st_mode) and is_alone and (_NOTE in names or not names - {_LOCK})):
        raise ParameterError(
            f"expected {folder.name} beside the target as a folder of a run of yours, got "
            "something else, which a run would remove; move it, or name another target"
        )
    return folder


@contextmanager
def open_job(folder: Path, told: dict[str, str]) -> Iterator[ChunkFolder]:
    """The chunks of this job, which no other run works at; done without an error, they go.

    Raises:
        ParameterError: Another run does, or the folder is of another job.
    """
    store, note = ChunkFolder(folder), folder / _NOTE
    lock = FileLock(folder / _LOCK, timeout=0, mode=0o600)
    alone = None
    with on_disk(), suppress(Timeout):  # which is an OSError
        alone = lock.acquire()
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
                f"expected the {' and '.join(other)} of the run that is to be continued, got "
                f"another; put it back, or remove {folder.name} beside the target to begin anew, "
                "which charges every row again"
            )
        yield store
        with on_disk():
            note.unlink()
    shutil.rmtree(folder, ignore_errors=True)
