"""Who writes to a ledger next: threads write for each other, processes one after the other."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from typing import Any

try:
    import fcntl
except ImportError:  # no POSIX: by chance
    fcntl = None  # type: ignore[assignment]

_NEXT, _WRITES = 0, 1  # bytes of the file
_POLITE = 1.0  # seconds
_MOMENT = 0.0005  # seconds


class Job:
    """Work on a subject's rows that waits, and what came of it."""

    def __init__(self, subject: str, work: Callable[[Any], Any]) -> None:
        self.subject, self.work = subject, work
        self.is_done = False
        self.outcome: Any = None  # what it returns, or an error of ours
        self.turn = Lock()  # until it is done, or its thread's turn to write
        self.turn.acquire()

    def settle(self, outcome: Any) -> None:
        """Tells its thread what came of it."""
        self.outcome, self.is_done = outcome, True
        self.turn.release()


class Queue:
    """One thread at a time writes, for all that wait for its commit; then it names the next one."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.clear()

    def clear(self) -> None:
        """Nobody waits: of a forked child, whose parent's threads write what waits there."""
        self.waiting = deque[Job]()
        self._writer: Job | None = None

    def take(self) -> list[Job]:
        """All that wait, in the order in which they came."""
        return [self.waiting.popleft() for _ in range(len(self.waiting))]

    def await_turn(self, job: Job, write: Callable[[], None]) -> None:
        """Returns when a job is done; ``write`` does all jobs that wait, this one among them."""
        try:
            with self.lock:
                self.waiting.append(job)
                if self._writer is None:
                    self._name(job)
            job.turn.acquire()
            if not job.is_done:
                write()
        finally:
            if self._writer is job or not job.is_done:  # else nobody waits for this thread
                with self.lock:
                    if job in self.waiting:  # interrupted
                        self.waiting.remove(job)
                    if self._writer is job:
                        self._name(self.waiting[0] if self.waiting else None)

    def _name(self, job: Job | None) -> None:
        self._writer = job
        if job is not None:
            job.turn.release()


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Waits for this process's turn to write to a SQLite file; one thread at a time.

    SQLite itself has processes sleep and try again, longer each time, while the one that has just
    written writes again. Here the next one holds a lock of the empty file at ``path`` while it
    waits for another: politeness, given up after a second. SQLite's own lock keeps writers apart.
    """
    file = -1
    if fcntl is not None:
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if file >= 0:
            deadline = time.monotonic() + _POLITE
            for place in (_NEXT, _WRITES):
                while not _locked(file, place) and time.monotonic() < deadline:
                    time.sleep(_MOMENT)
            with suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, _NEXT)
        yield
    finally:
        if file >= 0:
            os.close(file)  # and its locks


def _locked(file: int, place: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError:
        return False
    return True
