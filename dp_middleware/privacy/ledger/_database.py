"""The database under a privacy ledger: durable transactions, one writer per subject at a time.

SQLite: a write-ahead log, synchronised at every commit, and one writer at a time. PostgreSQL: an
advisory lock on the subject until the commit. What threads write at the same time is committed
together: all wait for the disk once. Per process one connection that writes and one that reads,
shared by its threads and closed before a fork.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from dp_middleware.errors import BudgetExhausted, DPMiddlewareError, LedgerError, ParameterError
from dp_middleware.privacy.ledger._engine import PATIENCE, new_engine, resolved
from dp_middleware.privacy.ledger._rows import create_tables

T = TypeVar("T")
Mode = Literal["read", "write"]
Work = Callable[[sa.Connection], T]

_PAUSE = 0.01  # seconds between two attempts to begin
_NAME = "SELECT value FROM dp_settings WHERE name = 'ledger'"  # random, of each ledger


class Job:
    """Work on a subject's rows that waits, and what came of it."""

    def __init__(self, subject: str, work: Work[Any]) -> None:
        self.subject, self.work = subject, work
        self.is_done = False
        self.outcome: Any = None  # what it returns, or an error of ours
        self.turn = Lock()  # until it is done, or its thread's turn to write
        self.turn.acquire()


class Queue:
    """One thread at a time writes, for all that wait for its commit; then it names the next one."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.clear()

    def clear(self) -> None:
        """Nobody waits: of a forked child, whose parent's threads write what waits there."""
        self.waiting = deque[Job]()
        self._writer: Job | None = None

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


class Database:
    """Transactions on the database of one ledger: a SQLite ``file``, or PostgreSQL without one."""

    def __init__(self, url: str | sa.URL) -> None:
        self._url = resolved(url)
        self._engine = new_engine(self._url)  # connects at first use
        weakref.finalize(self, self._engine.dispose)
        self.kind = self._url.get_backend_name()
        self.file = Path(str(self._url.database)) if self.kind == "sqlite" else None
        self._queue = Queue()  # to be written
        self._locks = {"write": RLock(), "read": RLock(), "queue": self._queue.lock}
        self._pinned: tuple[str, object] | None = None
        _databases.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Database, (self._url,)

    @property
    def exists(self) -> bool:
        if self.file is not None and not self.file.is_file():
            return False
        return self.read(lambda connection: sa.inspect(connection).has_table("dp_settings"))

    def pin(self, ledger: str) -> None:
        """Refuses to work from now on unless the ledger of this name is in this very file."""
        self._pinned = ledger, self._place

    def create(self, values: dict[str, str]) -> None:
        """Makes the tables and keeps the settings, unless another process was faster."""
        if self.file is not None:
            if not self.file.parent.is_dir():
                raise ParameterError("expected a ledger in an existing folder; create the folder")
            self.file.touch(mode=0o600)

        def create(connection: sa.Connection) -> None:
            if not sa.inspect(connection).has_table("dp_settings"):
                create_tables(connection, values)

        self.write("", create)

    def write(self, subject: str, work: Work[T]) -> T:
        """Does ``work`` alone on this subject's rows; durable on return, undone on any error.

        What waits at the same time is done in one transaction. A refusal, before anything is
        changed, is to each alone; any other error is that of all, and nothing of theirs is written.
        """
        job = Job(subject, work)
        self._queue.await_turn(job, self._write_all)
        if isinstance(job.outcome, DPMiddlewareError):
            raise job.outcome
        result: T = job.outcome
        return result

    def read(self, work: Work[T]) -> T:
        with self._locks["read"]:
            return self._transact("read", work)

    def close(self) -> None:
        with self._locks["write"], self._locks["read"]:
            self._engine.dispose()

    def _write_all(self) -> None:
        with self._locks["write"]:
            waiting = self._queue.waiting
            jobs, results = [waiting.popleft() for _ in range(len(waiting))], list[Any]()
            failure = _failed(self.kind, "an interruption")
            try:
                results = self._transact(
                    "write",
                    lambda connection: [_result(job.work, connection) for job in jobs],
                    {job.subject for job in jobs},
                )
            except LedgerError as error:
                failure = str(error)
            finally:
                for job, result in zip_longest(jobs, results):
                    job.outcome = result if results else LedgerError(failure)  # nothing is written
                    job.is_done = True
                    job.turn.release()

    def _transact(self, mode: Mode, work: Work[T], subjects: Iterable[str] = ()) -> T:
        self._check_place()  # to connect would create a file
        try:
            with self._begun(mode) as connection:
                try:
                    if self.kind == "postgresql":
                        for number in sorted(map(_lock_number, subjects)):  # else two wait for ever
                            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))
                    if self._pinned is not None and _name_in(connection) != self._pinned[0]:
                        raise _replaced()
                    result = work(connection)
                    connection.commit()
                    self._check_place()
                    return result
                except BaseException:
                    connection.invalidate()  # it may still be in the transaction
                    raise
        except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
            failure = type(getattr(error, "orig", None) or error).__name__
        raise LedgerError(_failed(self.kind, failure))  # out of the handler: see _failed

    def _begun(self, mode: Mode) -> sa.Connection:
        """Begins a transaction; waits for another process's, as SQLite does not do everywhere."""
        deadline = time.monotonic() + PATIENCE
        while True:
            connection = None
            try:
                connection = self._engine.connect()
                connection.begin()  # it does not see what the driver runs
                if self.kind == "sqlite":
                    driver: Any = connection.connection
                    driver.execute("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")
                return connection
            except (OperationalError, sqlite3.OperationalError) as error:
                if connection is not None:
                    connection.close()
                if "database is locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    @property
    def _place(self) -> tuple[int, int] | None:
        """Device and number of the file, if there is one; SQLite keeps a log for each name."""
        status = None
        with suppress(OSError):
            status = self.file.stat() if self.file else None
        if status is not None and status.st_nlink > 1:
            raise LedgerError(
                "expected a ledger file with one name, got one with several (hard links), which "
                "would overdraw each other; keep one of them"
            )
        return None if status is None else (status.st_dev, status.st_ino)

    def _check_place(self) -> None:
        place = self._place
        if self._pinned is not None and place != self._pinned[1]:
            raise _replaced()


def _name_in(connection: sa.Connection) -> object:
    driver: Any = connection.connection.cursor()
    named = driver.execute(_NAME).fetchone()
    return None if named is None else named[0]


def _result(work: Work[Any], connection: sa.Connection) -> Any:
    """What it returns, or the refusal it raises: for the one who asked; others' rows stand."""
    try:
        return work(connection)
    except (BudgetExhausted, ParameterError) as error:
        return error.with_traceback(None)  # of another thread, with its subjects


def _failed(kind: str, failure: str) -> str:
    """Words of ours only: a driver's own error may quote a row."""
    return (
        f"expected a working {kind} ledger, got {failure}; nothing may be released, and "
        "a charge that was under way may be recorded all the same"
    )


def _replaced() -> LedgerError:
    return LedgerError(
        "expected the ledger that was opened, got none or another one in its place; nothing may be "
        "released; put it back, or make a new PrivacyLedger"
    )


def _lock_number(subject: str) -> int:
    """64 bits; two subjects with one number wait for each other, no more."""
    digest = hashlib.sha256(f"dp-middleware ledger {subject}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_forking = RLock()
_held: list[Database] = []


def _before_fork() -> None:
    """No connection and no held lock crosses a fork: both would be shared with the child."""
    _forking.acquire()
    for database in list(_databases):
        for lock in database._locks.values():
            lock.acquire()
        _held.append(database)
        database.close()


def _after_fork() -> None:
    while _held:
        for lock in _held.pop()._locks.values():
            lock.release()
    _forking.release()


def _in_child() -> None:
    for database in _held:
        database._queue.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
